"""Scheduling signatures: what every keepable plugin says about a pod (`Plugin.sign`), as one comparable object.

Plugins that sign templates are asked once for all pods stamped from one, and about a template that differs from a known
one in little, only those are asked that do not ignore the difference. Where signs depend on the state of the cluster,
they are asked for again when it may have changed them: `versions` says whether.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from kubesched.api.core import Container, Pod, PodSpec, Volume
from kubesched.framework.plugin import AFFINITY, METADATA, REQUESTS, Plugin
from kubesched.framework.runtime.calling import PLUGIN_ERRORS, PluginFailure, failure, raised, wrong_answer
from kubesched.framework.runtime.metering import SUCCESS, Meter
from kubesched.framework.status import Status
from kubesched.state.pod_info import PodInfo

#: Bounds on what is remembered: labels and requests that came together, templates that share these, signatures, and
#: things said by each plugin.
_TEMPLATES_MAX = 4096
_TEMPLATES_ALIKE_MAX = 8
_SIGNATURES_MAX = 16_384
_PARTS_MAX = 16_384

#: Of the state that signs depend on.
Versions: TypeAlias = tuple[Hashable, ...]

#: How templates differ, in bits.
_METADATA: Final = 1
_REQUESTS: Final = 2
_AFFINITY: Final = 4
_ALL: Final = 15
_BITS: Final = {METADATA: _METADATA, REQUESTS: _REQUESTS, AFFINITY: _AFFINITY}


class Signature:
    """What each signer says about a pod: a number for each thing ever said, 0 where one will not sign. Equal ones are
    the same object, so that looking one up hashes nothing deep."""

    __slots__ = ("codes", "has_come", "is_whole")

    def __init__(self, codes: tuple[int, ...]) -> None:
        self.codes = codes
        #: Nobody refused to sign.
        self.is_whole = 0 not in codes
        #: Some pod with it was evaluated.
        self.has_come = False


#: Of a pod that nobody was asked about.
UNSIGNED = Signature(())


class Signing:
    """Asks `signers` for signatures, whose codes are in their order."""

    def __init__(self, profile_name: str, signers: Sequence[Plugin], meter: Meter) -> None:
        self.signers = list(signers)
        self._profile_name = profile_name
        self._meter = meter
        self._signs = [plugin.sign for plugin in self.signers]
        self._ignored = [_ignored(plugin) for plugin in self.signers]
        self._versioned = [k for k, plugin in enumerate(self.signers) if hasattr(plugin, "sign_version")]
        self._sign_versions = [self.signers[k].sign_version for k in self._versioned]
        #: Who signs each pod by itself, and who of the others looks at a difference between templates, or at that and
        #: the state.
        self._of_pods = [k for k, plugin in enumerate(self.signers) if not plugin.signs_template]
        self._concerned = [self._who_looks(difference, anew=False) for difference in range(_ALL + 1)]
        self._concerned_anew = [self._who_looks(difference, anew=True) for difference in range(_ALL + 1)]
        #: Pods keep their signatures, and outlive a profile that another of the same name takes over from.
        self._era = object()
        #: By namespace, labels and requests.
        self._templates: dict[Hashable, list[_Template]] = {}
        #: What a template without its like is compared with: the one seen last with its labels, or the newest of all.
        self._latest_of: dict[Hashable, _Template] = {}
        self._newest: _Template | None = None
        #: By signer, what it ever said, numbered; no number is used twice.
        self._codes: list[dict[Hashable, int]] = [{} for _ in self.signers]
        self._code_count = 0
        self._interned: dict[tuple[int, ...], Signature] = {}
        self._names: dict[int, frozenset[str]] = {0: frozenset()}

    def versions(self) -> Versions:
        """Raises PluginFailure."""
        try:
            return self._era, *[version() for version in self._sign_versions]
        except PLUGIN_ERRORS:  # of whom?
            return self._era, *[_sign_version(self.signers[k]) for k in self._versioned]

    def signature(self, pod_info: PodInfo, versions: Versions) -> Signature:
        """The pod's signature as of these versions, the current ones; raises PluginFailure."""
        if pod_info.signatures is None:
            pod_info.signatures = {}
        known = pod_info.signatures.get(self._profile_name)
        if known is not None and known[0] == versions:
            signed: Signature = known[1]
            return signed
        started_s = self._meter.now()
        template = self._template_of(pod_info.pod, versions)
        signature = template.signature if not self._of_pods else self._signature_of(pod_info.pod, template)
        self._meter.point("Sign", SUCCESS, started_s)
        pod_info.signatures[self._profile_name] = versions, signature
        return signature

    def unsigned(self, signature: Signature) -> frozenset[str]:
        """The names of the plugins that did not sign."""
        bits = 0
        if not signature.is_whole:
            for k, code in enumerate(signature.codes):
                if not code:
                    bits |= 1 << k
        return self._named(bits)

    def alike(self, one: Signature, other: Signature) -> frozenset[str]:
        """The names of the plugins that signed both with the same."""
        bits, theirs = 0, other.codes
        for k, code in enumerate(one.codes):
            if code and code == theirs[k]:
                bits |= 1 << k
        return self._named(bits)

    def _named(self, bits: int) -> frozenset[str]:
        """The same object for the same plugins."""
        names = self._names.get(bits)
        if names is None:
            names = frozenset([plugin.name for k, plugin in enumerate(self.signers) if bits >> k & 1])
            self._names[bits] = names
        return names

    # -- templates

    def _template_of(self, pod: Pod, versions: Versions) -> _Template:
        """Signed as of these versions."""
        spec = _without_tokens(pod.spec)
        labels = pod.metadata.namespace, tuple(pod.metadata.labels.items())
        latest = self._latest_of.get(labels)
        if latest is not None and latest.versions == versions and latest.stamps(pod, spec):
            return latest
        key = labels, tuple([tuple(container.resources.requests.items()) for container in spec.containers])
        templates = self._templates.get(key)
        if templates is not None:
            for template in templates:
                if template.stamps(pod, spec):
                    if template.versions != versions:
                        self._sign_template(template, template, 0, versions)
                    self._latest_of[labels] = template
                    return template
        template = _Template(pod, spec)
        like = latest or self._newest
        difference = _ALL if like is None else template.difference(like)
        self._sign_template(template, like, difference, versions)
        self._remember(template, labels, key)
        return template

    def _remember(self, template: _Template, labels: Hashable, key: Hashable) -> None:
        if len(self._templates) >= _TEMPLATES_MAX:
            self._templates.clear()
            self._latest_of.clear()
        templates = self._templates.setdefault(key, [])
        templates.insert(0, template)
        del templates[_TEMPLATES_ALIKE_MAX:]
        self._latest_of[labels] = self._newest = template

    def _sign_template(self, template: _Template, like: _Template | None, difference: int, versions: Versions) -> None:
        """Ask who looks at the difference; the others say what they said of `like`."""
        if like is None:
            codes = [0] * len(self.signers)
            asked = self._concerned[_ALL]
        else:
            codes = list(like.signature.codes)
            asked = (self._concerned if like.versions == versions else self._concerned_anew)[difference]
        for k in asked:
            codes[k] = self._code(k, template.pod)
        template.signature, template.versions = self._intern(tuple(codes)), versions

    def _signature_of(self, pod: Pod, template: _Template) -> Signature:
        """With the signs of those who look at more than its template."""
        codes = list(template.signature.codes)
        for k in self._of_pods:
            codes[k] = self._code(k, pod)
        return self._intern(tuple(codes))

    def _who_looks(self, difference: int, *, anew: bool) -> list[int]:
        return [
            k
            for k, plugin in enumerate(self.signers)
            if plugin.signs_template and (difference & ~self._ignored[k] or (anew and k in self._versioned))
        ]

    # -- what is said, in numbers

    def _code(self, k: int, pod: Pod) -> int:
        """What the plugin says of the pod; raises PluginFailure."""
        plugin = self.signers[k]
        try:
            part = self._signs[k](pod)
        except PLUGIN_ERRORS as error:
            raise _failure(plugin, raised(plugin, "Sign", error)) from error
        if part is None:
            return 0
        codes = self._codes[k]
        try:
            code = codes.get(part)
        except TypeError:
            _check_hashable(plugin, part)
            raise
        if code is None:
            if isinstance(part, Status):
                raise _failure(plugin, part)
            if len(codes) >= _PARTS_MAX:
                codes.clear()
            self._code_count += 1
            code = codes[part] = self._code_count
        return code

    def _intern(self, codes: tuple[int, ...]) -> Signature:
        signature = self._interned.get(codes)
        if signature is None:
            if len(self._interned) >= _SIGNATURES_MAX:
                self._interned.clear()
            signature = self._interned[codes] = Signature(codes)
        return signature


class _Template:
    """What pods stamped alike have in common: one of them, and what plugins signed of it."""

    __slots__ = ("_spec", "pod", "signature", "versions")

    def __init__(self, pod: Pod, spec: PodSpec) -> None:
        self.pod = pod
        self._spec = spec
        #: Without those who sign each pod by itself.
        self.signature = UNSIGNED
        self.versions: Versions = ()

    def stamps(self, pod: Pod, spec: PodSpec) -> bool:
        """Whether the pod differs from ours in nothing that a template decides (namespace and labels are equal)."""
        ours, theirs = self.pod.metadata, pod.metadata
        return (
            ours.annotations == theirs.annotations
            and ours.owner_references == theirs.owner_references
            and self._spec == spec
        )

    def difference(self, other: _Template) -> int:
        """In what the two differ."""
        ours, theirs = self._spec, other._spec
        alike = replace(
            theirs,
            affinity=ours.affinity,
            containers=ours.containers,
            init_containers=ours.init_containers,
            resources=ours.resources,
            overhead=ours.overhead,
        )
        if ours != alike:
            return _ALL
        bits = 0
        if ours.affinity != theirs.affinity:
            bits |= _AFFINITY
        if (
            ours.containers != theirs.containers
            or ours.init_containers != theirs.init_containers
            or ours.resources != theirs.resources
            or ours.overhead != theirs.overhead
        ):
            bits |= _REQUESTS
            if not (
                _differ_in_requests(ours.containers, theirs.containers)
                and _differ_in_requests(ours.init_containers, theirs.init_containers)
            ):
                return _ALL
        mine, others = self.pod.metadata, other.pod.metadata
        if (
            mine.labels != others.labels
            or mine.namespace != others.namespace
            or mine.annotations != others.annotations
            or mine.owner_references != others.owner_references
        ):
            bits |= _METADATA
        return bits


def _ignored(plugin: Plugin) -> int:
    """Nothing, if it has inherited the word for another `sign` than its own."""
    for base in type(plugin).__mro__:
        if "sign_ignores" in vars(base):
            return sum([_BITS[part] for part in plugin.sign_ignores])
        if "sign" in vars(base):
            break
    return 0


def _without_tokens(spec: PodSpec) -> PodSpec:
    """Without volumes that scheduling never looks at: the one of a service account's token has a name of its own in
    every pod."""
    if not spec.volumes:
        return spec
    volumes = tuple([volume for volume in spec.volumes if volume != Volume(name=volume.name)])
    return spec if len(volumes) == len(spec.volumes) else replace(spec, volumes=volumes)


def _differ_in_requests(some: tuple[Container, ...], others: tuple[Container, ...]) -> bool:
    """In nothing else, that is."""
    if some == others:
        return True
    if len(some) != len(others):
        return False
    return all(one == replace(other, resources=one.resources) for one, other in zip(some, others, strict=True))


def _check_hashable(plugin: Plugin, part: Hashable) -> None:
    try:
        hash(part)
    except TypeError:
        problem = f"answered with {type(part).__name__}, which is not hashable"
        raise _failure(plugin, wrong_answer(plugin, "Sign", problem)) from None


def _sign_version(plugin: Plugin) -> Hashable:
    try:
        version: Hashable = plugin.sign_version()
    except PLUGIN_ERRORS as error:
        raise _failure(plugin, raised(plugin, "Sign", error)) from error
    return version


def _failure(plugin: Plugin, status: Status) -> PluginFailure:
    return failure(plugin, f'signing the pod for plugin "{plugin.name}"', status)
