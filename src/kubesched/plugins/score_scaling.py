"""Scaling raw scores into 0..100, as DefaultNormalizeScore does (kube-scheduler v1.36, plugins/helper).

The highest raw score among the nodes that fit becomes 100, the others their share of it, cut to whole numbers.
Reversed, raw scores are costs: each share is taken from 100, so that the highest becomes 0.
"""

from __future__ import annotations

from kubesched.framework.plugin import MAX_NODE_SCORE
from kubesched.state.node_table import Ints


def highest(raw: Ints) -> int:
    return int(raw.max()) if len(raw) else 0


def scaled(raw: Ints, top: int) -> Ints:
    """Raw scores are not negative. Where all are 0 they stay 0."""
    return raw * MAX_NODE_SCORE // top if top else raw


def scaled_reversed(raw: Ints, top: int) -> Ints:
    """Where all raw scores are 0, every node gets 100."""
    return MAX_NODE_SCORE - scaled(raw, top)
