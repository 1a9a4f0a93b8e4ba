"""Price-aware zone choice: the cheapest zone in which the pod fits wins.

Prices by zone are part of the configuration. Pods may opt out, for instance those that must answer quickly.
"""

import msgspec
import numpy as np

from kubesched.framework import MAX_NODE_SCORE, Plugin, Status

#: Prices become whole numbers of this part of a currency unit.
_PARTS = 10_000


class PriceAwareArgs(msgspec.Struct, frozen=True, rename="camel"):
    #: Zone -> price of an hour.
    prices: dict[str, float]
    zone_label: str = "topology.kubernetes.io/zone"
    opt_out_annotation: str = "price-aware"

    def __post_init__(self):
        bad = [zone for zone, price in self.prices.items() if not 0 <= price < 1e9]
        if bad:
            raise ValueError(f"prices: must be between 0 and 1e9 in {', '.join(bad)}")


class PriceAware(Plugin):
    name = "PriceAware"
    args_type = PriceAwareArgs

    def pre_score(self, state, pod, nodes):
        opted_out = pod.metadata.annotations.get(self.args.opt_out_annotation) == "false"
        return Status.skip() if opted_out or not self.args.prices else None

    def score(self, state, pod, node):
        """The price, for now: `normalize_score` turns it around. Zones without a price cost what the dearest costs."""
        price = self.args.prices.get(node.labels.get(self.args.zone_label, ""), max(self.args.prices.values()))
        return round(price * _PARTS)

    def normalize_score(self, state, pod, nodes, scores):
        dearest, cheapest = int(scores.max()), int(scores.min())
        if dearest == cheapest:
            return np.full_like(scores, MAX_NODE_SCORE)
        return (dearest - scores) * MAX_NODE_SCORE // (dearest - cheapest)
