"""How well a node's volumes or capacities would be used, from 0 to 100 (feature gate StorageCapacityScoring).

Per class the share of what is asked in what there is, put through the shape of the plugin's args; the node scores the
mean over the classes, rounded. Volumes that exist count before capacities that could be provisioned from.
(kube-scheduler v1.36.)
"""

from __future__ import annotations

from kubesched.api import quantity
from kubesched.plugins.volume_binding.judging import Decision
from kubesched.plugins.volume_binding.supply import requested_bytes
from kubesched.state.assumed_volumes import class_of_claim


def score(decision: Decision, shape: tuple[int, ...]) -> int:
    """`shape[p]` is the score for p percent used."""
    asked: dict[str, int] = {}
    there: dict[str, int] = {}
    for claim, volume in decision.bind:
        name = volume.spec.storage_class_name
        asked[name] = asked.get(name, 0) + requested_bytes(claim)
        there[name] = there.get(name, 0) + quantity.value(volume.spec.capacity.get("storage", 0))
    if not decision.bind:
        for claim, capacity in decision.provision:
            if capacity is None:
                continue
            name = class_of_claim(claim)
            asked[name] = asked.get(name, 0) + requested_bytes(claim)
            # Claims of one class are provisioned from the same capacity: it counts once.
            there[name] = quantity.value(capacity.capacity) if capacity.capacity is not None else 0
    if not asked:
        return 0
    total = sum(shape[_percent(amount, there[name])] for name, amount in asked.items())
    return (2 * total + len(asked)) // (2 * len(asked))


def _percent(asked: int, there: int) -> int:
    return 100 if there == 0 or asked > there else asked * 100 // there
