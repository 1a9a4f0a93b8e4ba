"""Counts of pods by selector. Random histories are in `tests/plugins/test_neighbours`."""

from __future__ import annotations

import numpy as np
import pytest

from kubesched.api.core import Pod
from kubesched.api.selectors import match_labels
from kubesched.state import consistency, node_table, pod_counts, tallies
from kubesched.state.affinity_terms import AffinityTerms, NamespaceScope, PodMatch, affinity_terms
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_counts import TermKind
from kubesched.state.tallies import Tally, WeightedCounts, weighted_sum
from tests.build import make_namespace, make_node, make_pod

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB = {"app": "web"}


def match(app: str, *, terminating: bool = True) -> PodMatch:
    return PodMatch(((NamespaceScope(frozenset({"default"})), match_labels({"app": app})),), terminating)


def cluster() -> ClusterState:
    state = ClusterState()
    for name, zone in (("n0", "a"), ("n1", "b"), ("n2", "a")):
        state.set_node(make_node(name).zone(zone).obj())
    state.set_pod(make_pod("p0").labels(WEB).node("n0").obj())
    state.set_pod(make_pod("p1").labels(WEB).node("n1").deleting().obj())
    state.set_pod(make_pod("p2").labels(WEB).node("unknown").obj())
    return state


def counted(state: ClusterState, what: PodMatch) -> list[int]:
    counts: list[int] = state.nodes.pods_matching(what)[: state.nodes.row_count].tolist()
    return counts


def test_pods_of_nodes_without_the_label_are_in_no_domain() -> None:
    state = cluster()
    table = state.nodes
    state.set_node(make_node("bare").obj())
    tally = table.pod_counts.tally(match("web"))
    before = tally.per_domain(table.domains(ZONE)).tolist()
    state.set_pod(make_pod("p9").labels(WEB).node("bare").obj())
    assert tally.per_domain(table.domains(ZONE)).tolist() == before
    assert tally.counts_by(table.domains(ZONE)).total == sum(before)


def test_a_tally_is_summed_up_once_and_then_followed() -> None:
    state = cluster()
    assert counted(state, match("web")) == [1, 1, 0]
    assert counted(state, match("web", terminating=False)) == [1, 0, 0]
    state.set_pod(make_pod("p3").labels(WEB).node("n2").obj())
    state.set_node(make_node("unknown").obj())
    state.set_node(make_node("n3").obj())
    assert counted(state, match("web")) == [1, 1, 1, 1, 0]
    state.remove_node("n0")
    assert counted(state, match("web")) == [0, 1, 1, 1]
    state.set_pod(make_pod("p3").label("app", "db").node("n2").obj())
    assert counted(state, match("web")) == [0, 1, 0, 1]
    assert consistency.check(state) == []


def test_sums_per_domain_are_followed_and_the_callers_own() -> None:
    state = cluster()
    table = state.nodes
    tally = table.pod_counts.tally(match("web"))
    sums = tally.per_domain(table.domains(ZONE))
    assert sums.tolist() == [1, 1, 0]
    sums[:] = 99
    state.set_pod(make_pod("p3").labels(WEB).node("n2").obj())
    assert table.pod_counts.tally(match("web")) is tally
    assert tally.per_domain(table.domains(ZONE)).tolist() == [2, 1, 0]
    state.set_node(make_node("n2").zone("c").obj())
    assert tally.per_domain(table.domains(ZONE)).tolist() == [1, 1, 1, 0]
    state.set_node(make_node("n2").obj())
    assert tally.per_domain(table.domains(ZONE)).tolist() == [1, 1, 0, 0]
    assert consistency.check(state) == []


def test_weighted_sums_are_followed_until_one_of_the_tallies_is_gone() -> None:
    state = cluster()
    table = state.nodes
    counts = table.pod_counts
    state.set_pod(make_pod("d0").label("app", "db").node("n0").obj())

    def parts() -> WeightedCounts:
        zones = table.domains(ZONE)
        return (counts.tally(match("web")).counts_by(zones), 5), (counts.tally(match("db")).counts_by(zones), -3)

    mixed = weighted_sum(parts())
    assert mixed.tolist() == [2, 5, 0]
    state.set_pod(make_pod("d1").label("app", "db").node("n1").obj())
    state.set_pod(make_pod("p3").labels(WEB).node("n2").obj())
    assert weighted_sum(parts()) is mixed
    assert mixed.tolist() == [7, 2, 0]
    assert consistency.check(state) == []
    mixed[0] += 1
    findings = consistency.check(state)
    assert [finding.endswith("has other sums per domain") for finding in findings] == [True, True]
    counts.tally(match("web")).forget_sums()
    assert consistency.check(state) == []
    assert weighted_sum(parts()).tolist() == [7, 2, 0]


def test_a_tally_may_count_in_weighted_sums_twice_and_in_many() -> None:
    state = cluster()
    tally = state.nodes.pod_counts.tally(match("web"))
    sums = tally.counts_by(state.nodes.domains(ZONE))
    twice = weighted_sum(((sums, 2), (sums, 3)))
    others = [weighted_sum(((sums, weight),)) for weight in range(tallies._WEIGHTED_SUMS_MAX - 1)]
    state.set_pod(make_pod("p3").labels(WEB).node("n2").obj())
    assert twice.tolist() == [10, 5, 0]
    assert [mixed.tolist() for mixed in others] == [[2 * weight, weight, 0] for weight in range(len(others))]
    assert weighted_sum(((sums, 100),)).tolist() == [200, 100, 0]
    assert weighted_sum(((sums, 2), (sums, 3))) is not twice
    assert consistency.check(state) == []


def test_domains_are_the_same_object_until_a_node_changes_the_label() -> None:
    table = cluster().nodes
    domains = table.domains(ZONE)
    table.set_node(make_node("n1").zone("b").label("other", "x").obj())
    assert table.domains(ZONE) is domains
    table.set_node(make_node("n1").zone("a").obj())
    assert table.domains(ZONE) is not domains
    assert table.domains(ZONE).of_row.tolist() == [0, 0, 0]
    assert domains.of_row.tolist() == [0, 1, 0]


def test_tallies_that_nobody_asks_for_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_counts, "_CELLS_MAX", 0)
    monkeypatch.setattr(pod_counts, "_TALLIES_MIN", 2)
    state = cluster()
    first = state.nodes.pod_counts.tally(match("web"))
    state.nodes.pod_counts.tally(match("db"))
    assert state.nodes.pod_counts.tally(match("web")) is first
    state.nodes.pod_counts.tally(match("x"))
    state.nodes.pod_counts.tally(match("y"))
    state.set_pod(make_pod("p3").labels(WEB).node("n2").obj())
    assert first.counts[2] == 0
    assert state.nodes.pod_counts.tally(match("web")).counts[2] == 1
    assert consistency.check(state) == []


def test_terms_of_placed_pods_are_found_by_whom_they_concern() -> None:
    state = cluster()
    counts = state.nodes.pod_counts
    assert counts.terms_about("default", WEB) == ()
    state.set_pod(make_pod("g0").node("n0").pod_anti_affinity(HOST, WEB).pod_affinity(ZONE, WEB, weight=3).obj())
    state.set_pod(make_pod("g1").node("n1").label("x", "y").pod_anti_affinity(HOST, WEB).obj())
    repels, prefers = counts.terms_about("default", WEB)
    assert (repels.kind, prefers.kind, prefers.term.weight) == (TermKind.REPELS, TermKind.PREFERS, 3)
    assert sorted((info.name, pod.key) for info, pod in repels.holders()) == [
        ("n0", "default/g0"),
        ("n1", "default/g1"),
    ]
    assert counts.tally_of(repels).counts[:3].tolist() == [1, 1, 0]
    assert counts.terms_about("other", WEB) == counts.terms_about("default", {"app": "db"}) == ()
    version = counts.terms_version
    state.remove_pod(make_pod("g1").obj().metadata.uid)
    assert counts.tally_of(repels).counts[:3].tolist() == [1, 0, 0]
    assert counts.terms_version == version
    state.remove_pod(make_pod("g0").obj().metadata.uid)
    assert counts.terms_about("default", WEB) == ()
    assert counts.terms_version != version
    assert consistency.check(state) == []


def test_the_labels_of_namespaces_are_followed() -> None:
    state = cluster()
    selected = PodMatch(((NamespaceScope(frozenset(), match_labels({"team": "s"})), match_labels(WEB)),))
    assert counted(state, selected) == [0, 0, 0]
    state.objects.put("Namespace", make_namespace("default").label("team", "s").obj())
    assert counted(state, selected) == [1, 1, 0]
    state.objects.remove("Namespace", ("", "default"))
    assert counted(state, selected) == [0, 0, 0]


def test_the_self_check_finds_what_is_wrong() -> None:
    state = cluster()
    table = state.nodes
    tally = table.pod_counts.tally(match("web"))
    tally.per_domain(table.domains(ZONE))
    assert consistency.check(state) == []
    tally.change(2, 1)
    (finding,) = consistency.check(state)
    assert finding.startswith("node n2: tally of PodMatch")
    tally.counts[2] -= 1
    (finding,) = consistency.check(state)
    assert finding.endswith("has other sums per domain")
    assert np.array_equal(tally.counts[:3], [1, 1, 0])


def test_the_self_check_reads_terms_once_for_all_pods_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Production asks for it between two decisions, whatever the number of pods."""
    state = cluster()
    counts = state.nodes.pod_counts
    for number in range(30):
        pod = make_pod(f"g{number}").labels(WEB).node(f"n{number % 3}").pod_affinity(ZONE, WEB, weight=1 + number % 3)
        state.set_pod(pod.obj())
    for placed in counts.terms_about("default", WEB):
        counts.tally_of(placed)
    read: list[str] = []

    def noted(pod: Pod) -> AffinityTerms:
        read.append(pod.metadata.name)
        return affinity_terms(pod)

    monkeypatch.setattr(pod_counts, "affinity_terms", noted)
    assert consistency.check(state) == []
    assert len(read) <= 5


def test_values_of_labels_that_no_node_has_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_table, "_VALUES_MIN", 4)
    state = cluster()
    table = state.nodes
    tally = table.pod_counts.tally(match("web"))
    versions = []
    for number in range(30):
        state.set_node(make_node("n1").zone(f"b{number}").obj())  # a node changes the label
        state.remove_node(f"c{number - 1}")
        state.set_node(make_node(f"c{number}").zone(f"c{number}").obj())  # another takes the place of the one before
        column, domains = table.label_column(ZONE), table.domains(ZONE)
        assert len(column.values) <= 9
        assert [column.values.values[code] for code in column.codes[:4]] == ["a", f"b{number}", "a", f"c{number}"]
        sums = tally.per_domain(domains)
        assert [int(sums[domain]) for domain in domains.of_row] == [1, 1, 1, 0]
        versions.append(column.version)
        assert consistency.check(state) == []
    assert versions == sorted(set(versions))


def _weighted(state: ClusterState, *apps: str) -> tuple[Tally, WeightedCounts]:
    table = state.nodes
    found = [table.pod_counts.tally(match(app)) for app in apps]
    counts = tuple((tally.counts_by(table.domains(ZONE)), weight) for weight, tally in enumerate(found, 1))
    weighted_sum(counts)
    return found[0], counts


def test_a_weighted_sum_ends_with_the_first_tally_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is left with the others, which would follow it for ever."""
    monkeypatch.setattr(pod_counts, "_CELLS_MAX", 0)
    monkeypatch.setattr(pod_counts, "_TALLIES_MIN", 2)
    state = cluster()
    _, ((dropped, _), (other, _)) = _weighted(state, "web", "db")
    weighted_sum(((dropped, 7), (other, 8)))
    assert len(other._weighted_sums) == 2
    state.nodes.pod_counts.tally(match("db"))
    state.nodes.pod_counts.tally(match("x"))  # there is no room for three, and that of web is the oldest
    assert not other._weighted_sums


def test_of_many_weighted_sums_the_oldest_ends() -> None:
    state = cluster()
    _, ((web, _), (db, _)) = _weighted(state, "web", "db")
    for weight in range(tallies._WEIGHTED_SUMS_MAX):
        weighted_sum(((web, weight),))
    assert list(web._weighted_sums) == [((web, weight),) for weight in range(len(web._weighted_sums))]
    assert not db._weighted_sums


def test_a_weighted_sum_ends_with_a_topology_that_is_no_longer_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "_TOPOLOGIES_MAX", 1)
    state = cluster()
    web, (_, (db, _)) = _weighted(state, "web", "db")
    web.counts_by(state.nodes.domains(HOST))
    assert not db._weighted_sums


def test_a_weighted_sum_ends_with_the_last_pod_that_has_the_term() -> None:
    state = cluster()
    table, counts = state.nodes, state.nodes.pod_counts
    state.set_pod(make_pod("g0").node("n0").pod_affinity(ZONE, WEB, weight=3).obj())
    (placed,) = counts.terms_about("default", WEB)
    having, web = (
        tally.counts_by(table.domains(ZONE)) for tally in (counts.tally_of(placed), counts.tally(match("web")))
    )
    assert weighted_sum(((having, 3), (web, 1))).tolist() == [4, 1, 0]
    state.remove_pod(make_pod("g0").obj().metadata.uid)
    assert not web._weighted_sums


def test_the_self_check_looks_at_the_total_per_domain() -> None:
    state = cluster()
    tally = state.nodes.pod_counts.tally(match("web"))
    tally.counts_by(state.nodes.domains(ZONE)).total += 1
    (finding,) = consistency.check(state)
    assert finding.endswith("has other sums per domain")
