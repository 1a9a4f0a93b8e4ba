from __future__ import annotations

import pytest

from kubesched.api import taints
from kubesched.api.core import Taint, Toleration

TAINT = Taint(key="k", value="v", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerates"),
    [
        # BR-31
        pytest.param(Toleration(operator="Exists"), TAINT, True, id="everything"),
        pytest.param(Toleration(operator="Exists", effect="NoExecute"), TAINT, False, id="everything, another effect"),
        pytest.param(Toleration(key="k", operator="Exists"), TAINT, True, id="the key"),
        pytest.param(Toleration(key="k", value="v"), TAINT, True, id="key and value, operator left out"),
        pytest.param(Toleration(key="k", operator="Equal", value=""), TAINT, False, id="empty value is a value"),
        pytest.param(Toleration(key="k", operator="Equal", value="v", effect=""), TAINT, True, id="any effect"),
        pytest.param(Toleration(operator="Equal", value="v"), TAINT, True, id="any key with that value"),
        pytest.param(Toleration(key="other", operator="Exists"), TAINT, False, id="another key"),
        pytest.param(Toleration(key="k", operator="In", value="v"), TAINT, False, id="unknown operator"),
        pytest.param(Toleration(key="k"), Taint(key="k", effect="NoSchedule"), True, id="taint without a value"),
        # BR-32: how long it may stay has no part in whether it may come
        pytest.param(
            Toleration(key="foo", operator="Exists", toleration_seconds=0),
            Taint(key="foo", effect="NoExecute"),
            True,
            id="tolerated for no time",
        ),
    ],
)
def test_tolerates(toleration: Toleration, taint: Taint, tolerates: bool):
    assert taints.tolerates(toleration, taint) is tolerates


@pytest.mark.parametrize(
    ("operator", "toleration_value", "taint_value", "tolerates"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Gt", "-5", "0", True),
        ("Lt", "5", "4", True),
        ("Lt", "5", "5", False),
        ("Lt", "05", "4", False),
        ("Lt", "+5", "4", False),
        ("Lt", "5", "-0", False),
        ("Lt", "5", "four", False),
        ("Lt", "", "4", False),
        ("Lt", "9223372036854775807", "9223372036854775806", True),
        ("Lt", "9223372036854775808", "4", False),
    ],
)
def test_comparison_operators_behind_their_gate(
    operator: str, toleration_value: str, taint_value: str, tolerates: bool
):
    toleration = Toleration(key="k", operator=operator, value=toleration_value)
    taint = Taint(key="k", value=taint_value, effect="NoSchedule")
    assert taints.tolerates(toleration, taint, comparison_operators=True) is tolerates
    assert not taints.tolerates(toleration, taint)


def test_find_untolerated_names_the_first_taint_of_a_hard_effect():
    soft = Taint(key="soft", effect="PreferNoSchedule")
    other = Taint(key="other", effect="NoExecute")
    on_node = (soft, TAINT, other)
    assert taints.find_untolerated(on_node, ()) is TAINT
    assert taints.find_untolerated(on_node, (Toleration(key="k", operator="Exists"),)) is other
    assert taints.find_untolerated(on_node, (Toleration(operator="Exists"),)) is None
    assert taints.find_untolerated(on_node, (), effects={"PreferNoSchedule"}) is soft
    assert taints.find_untolerated((), ()) is None


def test_find_untolerated_passes_the_gate_on():
    toleration = Toleration(key="k", operator="Gt", value="1")
    taint = Taint(key="k", value="2", effect="NoSchedule")
    assert taints.find_untolerated([taint], [toleration]) is taint
    assert taints.find_untolerated([taint], [toleration], comparison_operators=True) is None


@pytest.mark.parametrize(
    ("toleration", "may_go"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", operator="Exists"), False),
    ],
)
def test_cordoned_nodes_are_open_to_those_who_tolerate_the_taint(toleration: Toleration, may_go: bool):
    assert taints.tolerated([toleration], taints.UNSCHEDULABLE) is may_go
