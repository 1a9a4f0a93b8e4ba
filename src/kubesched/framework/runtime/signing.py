"""Scheduling signatures: what every keepable plugin says about a pod (`Plugin.sign`), as one comparable object.

Plugins that sign templates are asked once for all pods stamped from one. Where signs depend on the state of the
cluster, they are asked for again when it may have changed them: `versions` says whether.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import msgspec

from kubesched.api.core import Pod, Volume
from kubesched.framework.plugin import Plugin
from kubesched.framework.runtime.calling import PLUGIN_ERRORS, PluginFailure, failure, raised, wrong_answer
from kubesched.framework.runtime.metering import SUCCESS, Meter
from kubesched.framework.status import Status
from kubesched.state.pod_info import PodInfo

#: Bounds on what is remembered: sets of labels, templates that share one, and signatures.
_TEMPLATES_MAX = 4096
_TEMPLATES_ALIKE_MAX = 8
_SIGNATURES_MAX = 16_384

#: Of the state that signs depend on.
Versions: TypeAlias = tuple[Hashable, ...]


class Signature:
    """What each signer says about a pod. Equal ones are the same object, so that looking one up hashes nothing deep."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Hashable, ...]) -> None:
        self.parts = parts


#: Of a pod that nobody was asked about.
UNSIGNED = Signature(())


class Signing:
    """Asks `signers` for signatures; `parts` of a signature are in their order, None where one will not sign."""

    def __init__(self, profile_name: str, signers: Sequence[Plugin], meter: Meter) -> None:
        self.signers = list(signers)
        self._profile_name = profile_name
        self._meter = meter
        self._template_signers = [plugin for plugin in self.signers if plugin.signs_template]
        self._signs_templates_only = len(self._template_signers) == len(self.signers)
        self._signs = [plugin.sign for plugin in self._template_signers]
        self._versioned = [plugin for plugin in self.signers if hasattr(plugin, "sign_version")]
        self._sign_versions = [plugin.sign_version for plugin in self._versioned]
        #: Pods keep their signatures, and outlive a profile that another of the same name takes over from.
        self._era = object()
        self._templates: dict[Hashable, list[_Template]] = {}
        self._interned: dict[tuple[Hashable, ...], Signature] = {}

    def versions(self) -> Versions:
        """Raises PluginFailure."""
        try:
            return self._era, *[version() for version in self._sign_versions]
        except PLUGIN_ERRORS:  # of whom?
            return self._era, *[_sign_version(plugin) for plugin in self._versioned]

    def signature(self, pod_info: PodInfo, versions: Versions) -> Signature:
        """The pod's signature as of these versions, the current ones; raises PluginFailure."""
        if pod_info.signatures is None:
            pod_info.signatures = {}
        known = pod_info.signatures.get(self._profile_name)
        if known is not None and known[0] == versions:
            signed: Signature = known[1]
            return signed
        started_s = self._meter.now()
        signature = self._sign(pod_info, versions)
        self._meter.point("Sign", SUCCESS, started_s)
        pod_info.signatures[self._profile_name] = versions, signature
        return signature

    def unsigned(self, signature: Signature) -> frozenset[str]:
        """The names of the plugins that did not sign."""
        return frozenset([p.name for p, part in zip(self.signers, signature.parts, strict=True) if part is None])

    def alike(self, one: Signature, other: Signature) -> frozenset[str]:
        """The names of the plugins that signed both with the same; none if some signs cannot be compared."""
        parts = zip(self.signers, one.parts, other.parts, strict=True)
        try:
            return frozenset([plugin.name for plugin, a, b in parts if a is not None and a == b])
        except PLUGIN_ERRORS:
            return frozenset()

    def _sign(self, pod_info: PodInfo, versions: Versions) -> Signature:
        template = self._template_of(pod_info, versions)
        if template.signature is not None:
            return template.signature
        parts = template.parts
        signature = self._intern(
            tuple([parts[plugin.name] if plugin.name in parts else _sign(plugin, pod_info) for plugin in self.signers])
        )
        if self._signs_templates_only:
            template.signature = signature
        return signature

    def _template_of(self, pod_info: PodInfo, versions: Versions) -> _Template:
        pod = pod_info.pod
        key = pod.metadata.namespace, tuple(pod.metadata.labels.items())
        templates = self._templates.get(key)
        if templates is None:
            if len(self._templates) >= _TEMPLATES_MAX:
                self._templates.clear()
            templates = self._templates[key] = []
        for template in templates:
            if template.versions == versions and template.stamps(pod):
                return template
        template = _Template(pod, versions, self._sign_template(pod_info))
        templates.insert(0, template)
        del templates[_TEMPLATES_ALIKE_MAX:]
        return template

    def _sign_template(self, pod_info: PodInfo) -> dict[str, Hashable | None]:
        pod = pod_info.pod
        try:
            parts = [sign(pod) for sign in self._signs]
            hash(tuple(parts))
        except PLUGIN_ERRORS:
            parts = None
        if parts is None or Status in map(type, parts):  # one of them fails: which?
            return {plugin.name: _sign(plugin, pod_info) for plugin in self._template_signers}
        return dict(zip([plugin.name for plugin in self._template_signers], parts, strict=True))

    def _intern(self, parts: tuple[Hashable, ...]) -> Signature:
        signature = self._interned.get(parts)
        if signature is None:
            if len(self._interned) >= _SIGNATURES_MAX:
                self._interned.clear()
            signature = self._interned[parts] = Signature(parts)
        return signature


class _Template:
    """What pods stamped alike have in common: one of them, and what plugins signed of it."""

    __slots__ = ("_pod", "_volumes", "parts", "signature", "versions")

    def __init__(self, pod: Pod, versions: Versions, parts: dict[str, Hashable | None]) -> None:
        self._pod = pod
        self._volumes = _real_volumes(pod)
        self.versions = versions
        self.parts = parts
        #: The whole signature, where plugins sign nothing but templates.
        self.signature: Signature | None = None

    def stamps(self, pod: Pod) -> bool:
        """Whether the pod differs from ours in nothing that a template decides (namespace and labels are equal)."""
        ours, theirs = self._pod.metadata, pod.metadata
        if ours.annotations != theirs.annotations or ours.owner_references != theirs.owner_references:
            return False
        if self._pod.spec == pod.spec:
            return True
        if not pod.spec.volumes or self._volumes != _real_volumes(pod):
            return False
        alike = msgspec.structs.replace(pod.spec, volumes=self._pod.spec.volumes)
        return self._pod.spec == alike


def _real_volumes(pod: Pod) -> tuple[Volume, ...]:
    """Without those that scheduling never looks at: the volume of a service account's token has a name of its own in
    every pod."""
    return tuple(volume for volume in pod.spec.volumes if volume != Volume(name=volume.name))


def _sign(plugin: Plugin, pod_info: PodInfo) -> Hashable | None:
    try:
        part = plugin.sign(pod_info.pod)
    except PLUGIN_ERRORS as error:
        raise _failure(plugin, raised(plugin, "Sign", error)) from error
    try:
        hash(part)
    except TypeError:
        problem = f"answered with {type(part).__name__}, which is not hashable"
        raise _failure(plugin, wrong_answer(plugin, "Sign", problem)) from None
    if isinstance(part, Status):
        raise _failure(plugin, part)
    return part


def _sign_version(plugin: Plugin) -> Hashable:
    try:
        version: Hashable = plugin.sign_version()
    except PLUGIN_ERRORS as error:
        raise _failure(plugin, raised(plugin, "Sign", error)) from error
    return version


def _failure(plugin: Plugin, status: Status) -> PluginFailure:
    return failure(plugin, f'signing the pod for plugin "{plugin.name}"', status)
