"""Which evaluations are kept: a bounded memory of the signatures seen last.

The signature of a pod is what every keepable plugin says about it (`Plugin.sign`). A plugin that will not sign a pod is
left out of that pod's evaluation and asked anew in each cycle. Where signs depend on the state of the cluster, they are
asked for again when it may have changed them; an evaluation is good as long as the pod that it was made for still has
the signature under which it is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

import msgspec

from kubesched.api.core import Pod, Volume
from kubesched.framework.plugin import Plugin
from kubesched.framework.runtime.calling import call, failure, wrong_answer
from kubesched.framework.runtime.evaluation import Evaluation, Score
from kubesched.framework.runtime.metering import SUCCESS, Meter
from kubesched.framework.status import Status
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_info import PodInfo

#: Bounds on what is kept: bytes in all (some, and more for each node), and evaluations in any case.
_BYTES_MIN = 64 << 20
_BYTES_PER_NODE = 8 << 10
_COUNT_MIN = 8
#: Bounds on what is remembered of signing: sets of labels, templates that share one, and signatures.
_TEMPLATES_MAX = 4096
_TEMPLATES_ALIKE_MAX = 8
_SIGNATURES_MAX = 16_384
_COUNT_MAX = 512


class Signature:
    """What each signer says about a pod. Equal ones are the same object, so that looking one up hashes nothing deep."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Hashable, ...]) -> None:
        self.parts = parts


class KeptEvaluations:
    def __init__(
        self,
        profile_name: str,
        pre_filters: Sequence[Plugin],
        filters: Sequence[Plugin],
        scores: Sequence[tuple[Plugin, int]],
        pre_scorers: Sequence[Plugin],
        state: ClusterState,
        meter: Meter,
        *,
        enabled: bool = True,
    ) -> None:
        self._profile_name = profile_name
        self._filters = [
            plugin for plugin in filters if plugin.filter_reads is not None and hasattr(plugin, "filter_rows")
        ]
        self._scores = [
            (plugin, weight)
            for plugin, weight in scores
            if plugin.score_reads is not None
            and hasattr(plugin, "score_rows")
            and not hasattr(plugin, "normalize_score")
        ]
        #: Plugins whose PreFilter is all there is to keep.
        self._gates = [
            plugin for plugin in pre_filters if plugin.filter_reads is not None and plugin not in self._filters
        ]
        self._pre_scorers = {plugin.name for plugin in pre_scorers}
        seen: dict[str, Plugin] = {plugin.name: plugin for plugin in (*self._gates, *self._filters)}
        seen.update((plugin.name, plugin) for plugin, _ in self._scores)
        self._signers = list(seen.values())
        self._template_signers = [plugin for plugin in self._signers if plugin.signs_template]
        self._sign_versions = [plugin.sign_version for plugin in self._signers if hasattr(plugin, "sign_version")]
        self._signs_templates_only = len(self._template_signers) == len(self._signers)
        self._templates: dict[Hashable, list[_Template]] = {}
        self._interned: dict[tuple[Hashable, ...], Signature] = {}
        self._state = state
        self._meter = meter
        self._kept: OrderedDict[Hashable, Evaluation] = OrderedDict()
        #: Off: every evaluation is made from scratch (tests and benchmarks compare the two).
        self.enabled = enabled

    def evaluation(self, pod_info: PodInfo) -> Evaluation:
        """The kept evaluation of the pod's signature, or a new one; not yet refreshed."""
        signature = self._signature(pod_info)
        found = self._kept.get(signature) if self.enabled else None
        if found is not None:
            if not found.outdated and self._is_still_signed(found, signature):
                self._kept.move_to_end(signature)
                self._meter.batch_hint_used()
                return found
            del self._kept[signature]
            self._meter.batch_flushed("expired")
        self._meter.batch_no_hint()
        unsigned = {plugin.name for plugin, part in zip(self._signers, signature.parts, strict=True) if part is None}
        made = Evaluation(
            pod_info,
            [plugin for plugin in self._gates if plugin.name not in unsigned],
            [plugin for plugin in self._filters if plugin.name not in unsigned],
            [
                Score(plugin, weight, runs_pre_score=plugin.name in self._pre_scorers)
                for plugin, weight in self._scores
                if plugin.name not in unsigned
            ],
            self._state,
            self._meter,
        )
        made.signature, made.signed_at = signature, self._versions()
        return made

    def keep(self, evaluation: Evaluation) -> None:
        """Remember an evaluation that was refreshed over the whole table."""
        if not self.enabled or self._kept.get(evaluation.signature) is evaluation:
            return
        self._kept[evaluation.signature] = evaluation
        budget = _BYTES_MIN + _BYTES_PER_NODE * self._state.nodes.row_count
        count_max = min(_COUNT_MAX, max(_COUNT_MIN, budget // max(1, evaluation.size_bytes)))
        while len(self._kept) > count_max:
            self._kept.popitem(last=False)
            self._meter.batch_flushed("expired")

    def drop(self, pod_info: PodInfo) -> None:
        """Forget what is kept for the pod's signature (a plugin failed halfway through)."""
        if self._kept.pop(self._signature(pod_info), None) is not None:
            self._meter.batch_flushed("pod_failed")

    def clear(self) -> None:
        self._kept.clear()

    def _signature(self, pod_info: PodInfo) -> Signature:
        if pod_info.signatures is None:
            pod_info.signatures = {}
        versions = self._versions()
        known = pod_info.signatures.get(self._profile_name)
        if known is not None and known[0] == versions:
            signed: Signature = known[1]
            return signed
        started_s = self._meter.now()
        signature = self._sign(pod_info, versions)
        self._meter.point("Sign", SUCCESS, started_s)
        pod_info.signatures[self._profile_name] = versions, signature
        return signature

    def _sign(self, pod_info: PodInfo, versions: tuple[Hashable, ...]) -> Signature:
        """What each plugin signs; those that sign templates are asked once for all pods of one."""
        template = self._template_of(pod_info, versions)
        if template.signature is not None:
            return template.signature
        parts = template.parts
        signature = self._intern(
            tuple(parts[plugin.name] if plugin.name in parts else _sign(plugin, pod_info) for plugin in self._signers)
        )
        if self._signs_templates_only:
            template.signature = signature
        return signature

    def _template_of(self, pod_info: PodInfo, versions: tuple[Hashable, ...]) -> _Template:
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
        template = _Template(pod, versions, {plugin.name: _sign(plugin, pod_info) for plugin in self._template_signers})
        templates.insert(0, template)
        del templates[_TEMPLATES_ALIKE_MAX:]
        return template

    def _intern(self, parts: tuple[Hashable, ...]) -> Signature:
        signature = self._interned.get(parts)
        if signature is None:
            if len(self._interned) >= _SIGNATURES_MAX:
                self._interned.clear()
            signature = self._interned[parts] = Signature(parts)
        return signature

    def _versions(self) -> tuple[Hashable, ...]:
        return tuple(version() for version in self._sign_versions)

    def _is_still_signed(self, evaluation: Evaluation, signature: Signature) -> bool:
        """Whether the pod that the evaluation was made for still has its signature."""
        versions = self._versions()
        if evaluation.signed_at == versions:
            return True
        if self._signature(evaluation.state.pod_info) is not signature:
            return False
        evaluation.signed_at = versions
        return True


class _Template:
    """What pods stamped alike have in common: one of them, and what plugins signed of it."""

    __slots__ = ("_pod", "_volumes", "parts", "signature", "versions")

    def __init__(self, pod: Pod, versions: tuple[Hashable, ...], parts: dict[str, Hashable | None]) -> None:
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
    part = call(plugin, "Sign", plugin.sign, pod_info.pod)
    try:
        hash(part)
    except TypeError:
        part = wrong_answer(plugin, "Sign", f"answered with {type(part).__name__}, which is not hashable")
    if isinstance(part, Status):
        raise failure(plugin, f'signing the pod for plugin "{plugin.name}"', part)
    return part
