"""The full self-check: columns and sums against a recount from the objects.

Slow (every pod is summed again) and therefore for tests, for SIGUSR2 and for the soak run. Returns findings as text,
one a line; an empty list means that all is well.
"""

from __future__ import annotations

from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import AMOUNT_MAX, NONZERO_CPU, NONZERO_MEMORY, POD_COUNT, NodeTable, taint_keys


def check(state: ClusterState) -> list[str]:
    findings = check_placements(state)
    findings += check_table(state.nodes)
    findings += state.volumes.findings()
    findings += state.claim_users.findings()
    return findings


def check_placements(state: ClusterState) -> list[str]:
    findings = []
    counted = {uid: info.name for info in state.nodes.by_name.values() for uid in info.pods}
    for uid, placement in state.placements.items():
        if counted.pop(uid, None) != placement.node_name:
            findings.append(f"pod {placement.pod.key} is placed on {placement.node_name} but not counted there")
    findings += [f"pod {uid} is counted on {name} but has no placement" for uid, name in counted.items()]
    return findings


def check_table(table: NodeTable) -> list[str]:
    findings = []
    if [info.row for info in table.infos] != list(range(table.row_count)):
        findings.append("rows of the node table are not dense")
    for info in table.by_name.values():
        findings += _check_sums(info)
        if info.row >= 0:
            findings += _check_row(table, info)
        elif not info.pods:
            findings.append(f"node {info.name} is kept without Node and without pods")
    findings += table.pod_counts.findings(table.by_name.values())
    for (protocol, port), users in table._port_users.items():
        for info in users.values():
            if not any(used.protocol == protocol and used.port == port for used in info.port_counts):
                findings.append(f"port index says {info.name} uses {protocol}/{port}")
    return findings


def _check_sums(info: NodeInfo) -> list[str]:
    recount = NodeInfo(info.name)
    for pod in info.pods.values():
        recount.add_pod(pod)
    findings = [
        f"node {info.name}: {what} is {getattr(info, what)}, recount {getattr(recount, what)}"
        for what in ("nonzero_cpu_milli", "nonzero_memory_bytes", "port_counts")
        if getattr(info, what) != getattr(recount, what)
    ]
    for resource in info.requested.keys() | recount.requested.keys():
        have, want = info.requested.get(resource, 0), recount.requested.get(resource, 0)
        if have != want:
            findings.append(f"node {info.name}: requested {resource} is {have}, recount {want}")
    return findings


def _check_row(table: NodeTable, info: NodeInfo) -> list[str]:
    row, node = info.row, info.node
    assert node is not None
    taken = {
        POD_COUNT: len(info.pods),
        NONZERO_CPU: info.nonzero_cpu_milli,
        NONZERO_MEMORY: info.nonzero_memory_bytes,
        **info.requested,
    }
    expected: dict[str, tuple[object, object]] = {
        "unschedulable": (bool(table.unschedulable[row]), node.spec.unschedulable),
        "taints": (table.taint_sets.values[table.taint_set[row]], taint_keys(node)),
    }
    for resource in table.taken.lines.keys() | taken.keys():
        amount = min(taken.get(resource, 0), AMOUNT_MAX)
        expected[f"taken {resource}"] = (int(table.taken.of(resource)[row]), amount)
    for resource in table.allocatable.lines.keys() | info.allocatable.keys():
        amount = min(info.allocatable.get(resource, 0), AMOUNT_MAX - 1)
        expected[f"allocatable {resource}"] = (int(table.allocatable.of(resource)[row]), amount)
    for key, label in table._labels.items():
        code = int(label.codes[row])
        expected[f"label {key}"] = (None if code < 0 else label.values.values[code], node.metadata.labels.get(key))
    for image in node.status.images:
        for name in image.names:
            known = table.images.get(name)
            expected[f"image {name}"] = (known is not None and info.name in known.node_names, True)
    return [
        f"node {info.name}: column {what} is {have!r}, recount {want!r}"
        for what, (have, want) in expected.items()
        if have != want
    ]
