"""`Plugin`: the contract between the framework and whoever extends it.

A plugin takes part in an extension point by having the method of that name; there is nothing to register besides the
class. Two points can be served in two ways, whichever the author prefers:

    filter(state, pod, node)        one node at a time, exactly like the original's interface
    filter_rows(state, pod, nodes)  a set of rows at once, answered with arrays

and so `score` / `score_rows`. The framework loops the first kind over the nodes that all vector filters let pass.

Beside `filter_rows` and `score_rows` a plugin may have the same rule as a function of one node, which is faster for the
one or two nodes that changed since the last pod: `judge(state, pod)` returns a function from a NodeInfo to None or a
Status, `rate(state, pod)` one from a NodeInfo to the raw score. They are asked for after PreFilter and PreScore; what
they return is used for pods with the same sign until those run again. Rules of `row_rules.py` are asked about many rows
in one call.

Methods answer None for success, or a `Status`. What they raise becomes an ERROR status with the plugin's name. `nodes`
is a `NodeSet`: it has a length, yields NodeInfos, and `nodes.table` has columns to be read at `nodes.index`. Scores are
whole numbers: of fractions the part behind the point is dropped.

    pre_enqueue(pod)                                   may the pod enter the active queue at all?
    less(a, b)                                         QueueSort: does queued pod a go before b?
    pre_filter(state, pod, nodes)                      once per attempt; may narrow the nodes, reject, or Skip
    add_pod / remove_pod(state, pod, other, node)      bring PreFilter's data up to date for a pod tried on or off
    filter / filter_rows                               does the pod fit?
    post_filter(state, pod, diagnosis)                 nothing fits: can something be done about it? (async)
    post_filter_preview(state, pod, diagnosis)         what post_filter would do, for explanations; changes nothing
    pre_score(state, pod, nodes)                       once per attempt, with the nodes that fit; may Skip
    score / score_rows                                 how good is the node?
    normalize_score(state, pod, nodes, raw)            bring scores into 0..100: an array, in the order of the nodes
    score_scale(state, pod, raw)                       or in two steps, faster where few scores change: what the nodes
    normalize_rows(state, pod, raw, scale)             that fit tell (read only; answer with anything that compares by
                                                       ==), and some or all scores by this
    shown_scores(raw)                                  raw scores to show, if those for normalising carry marks
    reserve / unreserve(state, pod, node_name)         the node is chosen: take (give back) what is ours
    permit(state, pod, node_name)                      let go, reject, or hold: (Status.wait(), timeout in seconds)
    pre_bind_pre_flight(state, pod, node_name)         is there PreBind work to do? Skip means no
    pre_bind(state, pod, node_name)                    (async)
    bind(state, pod, node_name)                        (async) Skip passes on to the next
    post_bind(state, pod, node_name)                   (async) for information

Explanations also ask for `details(state, pod, node)`, JSON-able facts about a node that the plugin rejected, and
`planned_volumes(state, pod, node)`, `{"bind": {claim: volume}, "provision": [claim]}` or None when nothing is to bind.

A plugin that does something beside the cycles may have `close()`: it is called when the plugin is no longer used,
because the scheduler stops or another configuration takes over.

A plugin is made as `PluginClass(args, handle)`: args is the decoded struct of `args_type`, or the raw mapping when the
class declares none; see `Handle` for what it may use.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.framework.status import Status

if TYPE_CHECKING:
    from kubesched.api.core import Pod
    from kubesched.framework.events import ClusterEventWithHint
    from kubesched.framework.handle import Handle

#: Scores after normalisation lie in 0..MAX_NODE_SCORE.
MAX_NODE_SCORE = 100
#: What `score_rows` and `normalize_rows` answer with, one number a node: bytes, which save time where all fit, are
#: taken as they are, everything else as 64 bits.
ScoreColumn: TypeAlias = NDArray[np.int64] | NDArray[np.uint8]

#: In what templates often differ that are equal in all else, for `Plugin.sign_ignores`: namespace, labels, annotations
#: and owners; what containers and the pod as a whole ask for and are limited to, overhead included; affinity.
METADATA: Final = "metadata"
REQUESTS: Final = "requests"
AFFINITY: Final = "affinity"
ANY_DIFFERENCE: Final = frozenset({METADATA, REQUESTS, AFFINITY})


@dataclass(frozen=True, slots=True)
class Reads:
    """What a plugin's answers for one node depend on, besides the pod itself.

    `row`: aspects (see `state.aspects`) of that node alone: a change re-evaluates the row, and so does another node in
    its place, whether or not that is named here.
    `table`: aspects of any node: a change re-evaluates all rows, PreFilter or PreScore included.
    `objects`: kinds of other objects: a change of one re-evaluates everything of every plugin.
    `feasible`: which nodes fit (scores only): a change re-evaluates all rows, PreScore included.
    """

    row: int = 0
    table: int = 0
    objects: tuple[str, ...] = ()
    feasible: bool = False


class Verdicts:
    """The answers of a vector Filter: `why[i]` is 0 where node i of the set fits, else an index into `statuses`.

    `why` has one entry per row of the asked set, in its order; `statuses[0]` is None. Any integers will do;
    `why` gives int32.
    """

    __slots__ = ("_why", "domains", "of_domain", "statuses")

    def __init__(self, why: NDArray[np.integer[Any]], statuses: list[Status | None]) -> None:
        self._why: NDArray[np.integer[Any]] | None = why
        self.statuses = statuses
        #: Where the answer is the same for all nodes of a domain: that answer by domain, and each row's domain.
        self.of_domain: NDArray[np.integer[Any]] | None = None
        self.domains: NDArray[np.integer[Any]] | None = None

    @classmethod
    def by_domain(
        cls, of_domain: NDArray[np.integer[Any]], domains: NDArray[np.integer[Any]], statuses: list[Status | None]
    ) -> Verdicts:
        """`why[i]` is `of_domain[domains[i]]`; domain -1 is the last entry."""
        verdicts = cls.__new__(cls)
        verdicts._why, verdicts.of_domain, verdicts.domains, verdicts.statuses = None, of_domain, domains, statuses
        return verdicts

    @property
    def why(self) -> NDArray[np.int32]:
        why = self._why
        if why is None:
            assert self.of_domain is not None
            assert self.domains is not None
            why = self.of_domain.take(self.domains)
        codes: NDArray[np.int32] = why.astype(np.int32, copy=False)
        self._why = codes
        return codes

    @classmethod
    def where(cls, rejected: NDArray[np.bool_], status: Status) -> Verdicts:
        """The same status for every node where `rejected` is True."""
        return cls(rejected.astype(np.int32), [None, status])


class PreFilterResult:
    """`node_names`: the only nodes worth a look; None for all."""

    __slots__ = ("node_names",)

    def __init__(self, node_names: Iterable[str] | None) -> None:
        if isinstance(node_names, str):
            raise TypeError(f"node_names is the text {node_names!r}, want a collection of names")
        self.node_names = frozenset(node_names) if node_names is not None else None
        if self.node_names and not all(isinstance(name, str) for name in self.node_names):
            raise TypeError("node_names are not all texts")


class Plugin:
    """Base of all plugins. Subclasses set `name` and define the methods of the points they serve."""

    name: ClassVar[str] = ""
    #: The struct that this plugin's `pluginConfig` args are decoded into; None passes the raw mapping.
    args_type: ClassVar[type[msgspec.Struct] | None] = None
    #: What Filter (with PreFilter) and Score (with PreScore) answers depend on. None: unknown, so nothing is kept.
    filter_reads: ClassVar[Reads | None] = None
    score_reads: ClassVar[Reads | None] = None
    #: Kinds of other objects that the plugin looks up in `handle.state.objects`; these are watched.
    watches: ClassVar[tuple[str, ...]] = ()

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    if TYPE_CHECKING:
        # Which of the points' methods a plugin has is up to it: the runtime looks, then calls.
        def __getattr__(self, name: str) -> Any: ...

    #: `sign` looks at nothing of the pod but its namespace, labels, annotations, owners and spec: pods stamped from one
    #: template then share their signature.
    signs_template: ClassVar[bool] = False
    #: Of METADATA, REQUESTS and AFFINITY those that `sign` does not look at, so that it need not be asked again about a
    #: template that differs from another in nothing else.
    sign_ignores: ClassVar[frozenset[str]] = frozenset()

    def sign(self, pod: Pod) -> Hashable | None:
        """Everything of the pod that Filter, Score and their Pre-points read, as a hashable value.

        Pods with equal signs get equal answers from this plugin on equal nodes. None: do not keep for this pod.
        Only asked of plugins that declare `filter_reads` or `score_reads`. A sign may depend on the state of the
        cluster; then the plugin has a method `sign_version()` too, whose value changes whenever a sign may.
        """
        return None

    def hint_sign(self, pod: Pod) -> Hashable | None:
        """Everything of a waiting pod that the plugin's queueing hints read, as a hashable value.

        An event is asked about once for pods of which this is equal, the pod's own events apart. None: once for each
        pod. What Filter reads is mostly what hints read.
        """
        return self.sign(pod)

    def events_to_register(self) -> list[ClusterEventWithHint] | None:
        """The changes that may turn a rejection by this plugin around. None: any change (as the original's default)."""
        return None


def sorted_items(mapping: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """A mapping as a hashable value, for `Plugin.sign`."""
    return tuple(sorted(mapping.items()))
