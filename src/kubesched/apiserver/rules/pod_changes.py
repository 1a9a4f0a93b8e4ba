"""What may change in the spec of a pod that exists: images, a deadline, more tolerations, fewer gates, little else."""

from __future__ import annotations

from kubesched.apiserver.go_dump import spec_diff
from kubesched.apiserver.status import Cause, forbidden_field, invalid_value
from kubesched.apiserver.store import Json

_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def changes_of_gates(old: Json, new: Json) -> list[Cause]:
    """Gates may only go; while there are any, node selector and affinity may only become narrower."""
    before = {gate["name"] for gate in old.get("schedulingGates") or ()}
    return [
        forbidden_field(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(new.get("schedulingGates") or ())
        if gate["name"] not in before
    ]


def forbidden_changes(old: Json, new: Json) -> list[Cause]:
    """Everything that differs and must not."""
    before, after = old["spec"], new["spec"]
    if before == after:
        return []
    for group in ("containers", "initContainers"):
        if len(before.get(group) or ()) != len(after.get(group) or ()):
            return [forbidden_field(f"spec.{group}", "pod updates may not add or remove containers")]
    causes = _changes_of_tolerations(before, after) + _change_of_deadline(before, after)
    if causes:
        return causes
    masked = dict(after)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _take_over(masked, before, name)
    if after.get("terminationGracePeriodSeconds") == 1 and before.get("terminationGracePeriodSeconds", 0) < 0:
        _take_over(masked, before, "terminationGracePeriodSeconds")
    for group in ("containers", "initContainers"):
        if after.get(group):
            masked[group] = [
                {**container, "image": was.get("image", "")}
                for container, was in zip(after[group], before[group], strict=True)
            ]
    if before.get("schedulingGates"):
        causes = _changes_of_node_choice(before, masked)
        if causes:
            return causes
    if masked != before:
        return [forbidden_field("spec", f"{_FORBIDDEN}\n{spec_diff(before, masked)}")]
    return []


def _take_over(target: Json, source: Json, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _changes_of_tolerations(before: Json, after: Json) -> list[Cause]:
    def bare(toleration: Json) -> Json:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    kept = [bare(toleration) for toleration in after.get("tolerations") or ()]
    if all(bare(toleration) in kept for toleration in before.get("tolerations") or ()):
        return []
    return [forbidden_field("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _change_of_deadline(before: Json, after: Json) -> list[Cause]:
    was, asked = before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds")
    if was is None or was == asked:
        return []
    if asked is None:
        return [
            invalid_value("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
        ]
    if asked > was:
        text = "must be less than or equal to previous value"
        return [invalid_value("spec.activeDeadlineSeconds", asked, text)]
    return []


def _changes_of_node_choice(before: Json, masked: Json) -> list[Cause]:
    """While gated: nodeSelector may get more entries, node affinity more requirements."""
    was, asked = before.get("nodeSelector") or {}, masked.get("nodeSelector") or {}
    if any(asked.get(key) != value for key, value in was.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        return [invalid_value("spec.nodeSelector", asked, text)]
    _take_over(masked, before, "nodeSelector")
    if (masked.get("affinity") or {}).get("nodeAffinity") != (before.get("affinity") or {}).get("nodeAffinity"):
        affinity = dict(masked.get("affinity") or {})
        old_affinity = before.get("affinity") or {}
        if not _terms(old_affinity) or len(_terms(old_affinity)) == len(_terms(affinity)):
            _take_over(affinity, old_affinity, "nodeAffinity")
        if affinity:
            masked["affinity"] = affinity
        else:
            masked.pop("affinity", None)
    return []


def _terms(affinity: Json) -> list[Json]:
    node = affinity.get("nodeAffinity") or {}
    terms: list[Json] = (node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get(
        "nodeSelectorTerms"
    ) or []
    return terms
