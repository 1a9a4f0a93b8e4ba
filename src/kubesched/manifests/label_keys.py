"""Merging `matchLabelKeys` into selectors, as the API server does when a pod is created (v1.36).

A key that the pod's labels have becomes one more requirement of the term's selector: In its value for matchLabelKeys,
NotIn for mismatchLabelKeys. A term without selector matches nothing and stays so; an empty selector becomes one that
matches something. Pods that have been merged already come back equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Doc = dict[str, Any]


def merge_label_keys(pod: Mapping[str, Any]) -> Doc:
    """The pod with the keys merged; the one passed in stays as it was."""
    spec = pod.get("spec") or {}
    labels = (pod.get("metadata") or {}).get("labels") or {}
    changed: Doc = {}
    if constraints := spec.get("topologySpreadConstraints"):
        changed["topologySpreadConstraints"] = [_merged(constraint, labels) for constraint in constraints]
    if affinity := spec.get("affinity"):
        changed["affinity"] = {
            sort: _merged_rules(rules, labels) if rules and sort in ("podAffinity", "podAntiAffinity") else rules
            for sort, rules in affinity.items()
        }
    return {**pod, "spec": {**spec, **changed}} if changed else dict(pod)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _merged_rules(rules: Doc, labels: Mapping[str, str]) -> Doc:
    merged = dict(rules)
    if rules.get(_REQUIRED):
        merged[_REQUIRED] = [_merged(term, labels) for term in rules[_REQUIRED]]
    if rules.get(_PREFERRED):
        merged[_PREFERRED] = [
            {**weighted, "podAffinityTerm": _merged(weighted.get("podAffinityTerm") or {}, labels)}
            for weighted in rules[_PREFERRED]
        ]
    return merged


def _merged(term: Doc, labels: Mapping[str, str]) -> Doc:
    selector = term.get("labelSelector")
    if selector is None:
        return term
    expressions = list(selector.get("matchExpressions") or ())
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field) or ():
            if key in labels:
                expression = {"key": key, "operator": operator, "values": [labels[key]]}
                if expression not in expressions:
                    expressions.append(expression)
    if not expressions:
        return term
    return {**term, "labelSelector": {**selector, "matchExpressions": expressions}}
