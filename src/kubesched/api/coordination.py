"""coordination.k8s.io/v1: leases, by which candidates agree on a leader."""

from __future__ import annotations

from kubesched.api.meta import Int32, Object, Struct


class LeaseSpec(Struct):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Object):
    spec: LeaseSpec = LeaseSpec()
