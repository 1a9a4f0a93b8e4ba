"""coordination.k8s.io/v1: leases, by which candidates agree on a leader."""

from __future__ import annotations

from kubesched.api.meta import Object, Struct


class LeaseSpec(Struct):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Object):
    spec: LeaseSpec = LeaseSpec()
