"""The reference of the configuration as Markdown: `python -m kubesched.config.reference > docs/configuration.md`.

Fields, types and defaults come from the types themselves; what a field means and does is said here, once for each path.
A path without such a row, or a row without a path, is a KeyError: the page cannot fall behind the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from kubesched.api.core import NodeAffinity
from kubesched.api.selectors import LabelSelector
from kubesched.config.catalog import IN_TREE, default_plugins
from kubesched.config.durations import Duration
from kubesched.config.features import GATES, SCHEDULER_GATES, FeatureGates
from kubesched.config.plugin_args import ARGS
from kubesched.config.types import API_VERSION, KIND, Configuration, Plugins, PluginSet, Struct


class Field(NamedTuple):
    """One field of the API: its path (`profiles[].schedulerName`), its type in the API's words, its default as text."""

    path: str
    type: str
    default: str


def fields(kind: type[Struct], path: str = "") -> list[Field]:
    """Every field below `kind`, parents before children. Types of the core API (affinity, selectors) are not opened,
    and the plugin sets of all extension points but the first have the same fields inside."""
    return list(_fields(inspect.type_info(kind), path))


def page() -> str:
    return "\n".join((_HEAD.strip(), "", *_body(), ""))


def main() -> None:
    sys.stdout.write(page())


def _fields(described: inspect.Type, path: str) -> Iterator[Field]:
    assert isinstance(described, inspect.StructType)
    for field in described.fields:
        where = f"{path}.{field.encode_name}" if path else field.encode_name
        inner, many = _opened(field.type)
        yield Field(where, _type_name(field.type), _default(field))
        if isinstance(inner, inspect.StructType) and inner.cls not in (NodeAffinity, LabelSelector):
            if inner.cls is PluginSet and field.encode_name != "preEnqueue":
                continue
            yield from _fields(inner, where + ("[]" if many else ""))


def _opened(kind: inspect.Type) -> tuple[inspect.Type, bool]:
    if isinstance(kind, inspect.UnionType):
        kind = next(t for t in kind.types if not isinstance(t, inspect.NoneType))
    if isinstance(kind, inspect.VarTupleType):
        return kind.item_type, True
    return kind, False


def _type_name(kind: inspect.Type) -> str:
    inner, many = _opened(kind)
    return ("list of " if many else "") + _plain_type_name(inner)


def _plain_type_name(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.IntType):
        return "int32" if kind.le == 2**31 - 1 else "int64"
    if isinstance(kind, inspect.StructType | inspect.DataclassType):
        name: str = kind.cls.__name__
        return "duration" if kind.cls is Duration else name
    names: dict[type[inspect.Type], str] = {
        inspect.BoolType: "boolean",
        inspect.StrType: "string",
        inspect.FloatType: "number",
        inspect.BytesType: "base64",
    }
    return names.get(type(kind), "any")


def _default(field: inspect.Field) -> str:
    value: Any = field.default
    if value in (None, "", (), b"", msgspec.NODEFAULT):
        return ""
    if isinstance(value, msgspec.Struct):
        return "" if value == type(value)() else "see below"
    if isinstance(value, tuple):
        return ", ".join(item.name for item in value)
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _body() -> Iterator[str]:
    yield from ("## Fields", "")
    yield from _field_table(fields(Configuration), _MEANING)
    yield from ("", "## Plugin args", "", _ARGS_HEAD.strip())
    for plugin, kind in ARGS.items():
        meaning = {path: row for (owner, path), row in _ARGS_MEANING.items() if owner == plugin}
        yield from ("", f"### {plugin}: `{kind.__name__}`", "")
        yield from _field_table(fields(kind), meaning)
    yield from (
        "",
        "## Plugins",
        "",
        _PLUGINS_HEAD.strip(),
        "",
        "| plugin | weight | extension points |",
        "|---|---|---|",
    )
    order = [info.encode_name for info in msgspec.structs.fields(Plugins)]
    for default in default_plugins():
        points = [point for point in order if point in IN_TREE[default.name].points]
        weight = str(default.weight or 1) if "score" in points else ""
        yield f"| {default.name} | {weight} | {', '.join(points)} |"
    yield from (
        "",
        "## Feature gates",
        "",
        _GATES_HEAD.strip(),
        "",
        "| gate | stage | default | read by |",
        "|---|---|---|---|",
    )
    gates = FeatureGates()
    for name, reader in SCHEDULER_GATES.items():
        gate = GATES[name]
        on = f"{gates.enabled(name)}".lower() + (", locked" if gate.locked else "")
        yield f"| {name} | {gate.stage.lower() or 'stable'} | {on} | {reader} |"


def _field_table(rows: Iterable[Field], meaning: dict[str, tuple[str, str]]) -> Iterator[str]:
    yield "| field | type | default | meaning | effect |"
    yield "|---|---|---|---|---|"
    unused = set(meaning)
    for row in rows:
        says, effect = meaning[row.path]
        unused.discard(row.path)
        yield f"| `{row.path}` | {row.type} | {row.default} | {says} | {effect} |"
    if unused:
        raise KeyError(f"described but not a field: {sorted(unused)}")


_HEAD = f"""
# Configuration

<!-- Written by `python -m kubesched.config.reference`; change that, not this page. -->

kubesched reads the configuration of kube-scheduler v1.36 unchanged: kind `{KIND}`, version `{API_VERSION}`,
in YAML or JSON.

```yaml
apiVersion: {API_VERSION}
kind: {KIND}
profiles:
- schedulerName: default-scheduler
  plugins:
    score:
      disabled: [{{name: PodTopologySpread}}]
      enabled: [{{name: NodeResourcesFit, weight: 5}}]
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{{name: cpu, weight: 1}}, {{name: nvidia.com/gpu, weight: 10}}]
```

* **Strict.** An unknown field, a field given twice and a wrong type are errors that name the field. All problems of
  a step (fields, then values, then plugins) are told at once, one a line, with the file's name and the line:
  `sched.yaml:7: profiles[0].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]`. Validation
  messages are the original's.
* **Older versions** (`v1beta3` and before) are refused as the original refuses them; the message says what to change.
* **Absent and zero.** An absent field takes its default. For `clientConnection` and the durations of `leaderElection` a
  zero or an empty text means absent; elsewhere a zero is a zero.
* **Durations** are written as in Go: `15s`, `1m30s`, `100ms`.
* **Warnings.** What is allowed but hardly meant is logged at the start: args for a plugin that does not run, disabling
  a plugin that does not exist, the stock scheduler's lease for a scheduler of another name.

## Plugin sets

Each extension point has a set `{{enabled: [{{name, weight}}], disabled: [{{name}}]}}`; `multiPoint` enables a plugin at
every extension point that it has. A profile begins with the default plugins (below) as `multiPoint`.

1. `multiPoint.disabled` takes default plugins away, `*` all of them. `multiPoint.enabled` adds plugins, or replaces a
   default one in place when it names one.
2. A plugin that an extension point enables itself overrides what `multiPoint` brings there: its weight counts (0 or
   none means 1), and it comes in the order of that list, before the other `multiPoint` plugins. Plugins that only the
   extension point names come last.
3. `disabled` of an extension point keeps `multiPoint` plugins out of it, `*` all of them. A plugin that the point
   enables itself stays, also when it is disabled in the same place.
4. Exactly one `queueSort` plugin, the same with the same args in all profiles; at least one `bind` plugin; no plugin
   twice at one point.
"""

_ARGS_HEAD = f"""
`profiles[].pluginConfig[].args` by plugin. `apiVersion: {API_VERSION}` and `kind` may be given or left out. A plugin
from outside declares its own struct, and its args are held against it with the same strictness.
"""

_PLUGINS_HEAD = """
The default plugins in their order, with the weight of their score. `NodeDeclaredFeatures` is among them while its
feature gate is on.
"""

_GATES_HEAD = f"""
`--feature-gates=A=true,B=false`. All {len(GATES)} gates of kube-scheduler v1.36 are accepted, and `AllAlpha` and
`AllBeta`; an unknown name is an error, and so are another value for a locked gate and a gate that is on without those
that it needs. The scheduler reads the following; the others change nothing in it. Pod groups are
[not there yet](parity.md#not-there-yet), so their gates change nothing either.
"""

_WHY_ONE_LOOP = "no effect, because decisions are made on whole columns in one thread"
_WHY_JSON = "no effect, because kubesched always speaks JSON, which every API server does"
_WHY_NO_GROUPS = (
    "no effect, because pods are scheduled one by one (the original's gate for pod groups is off by default)"
)
_POINT = "the plugins listed run there"

_MEANING: dict[str, tuple[str, str]] = {
    "parallelism": ("threads of the original's inner loops; at least 1", _WHY_ONE_LOOP),
    "leaderElection": ("which of several replicas schedules", ""),
    "leaderElection.leaderElect": ("take part in leader election", "off: schedules at once, and must be alone"),
    "leaderElection.leaseDuration": ("others take over this long after the last renewal", "written into the lease"),
    "leaderElection.renewDeadline": (
        "a leader that could not renew for this long stops; less than `leaseDuration`",
        "nothing is bound after it, and the process ends with 1",
    ),
    "leaderElection.retryPeriod": ("pause between tries to get or renew the lease", "as said"),
    "leaderElection.resourceLock": ("kind of the lock; `leases` is the only one", "checked"),
    "leaderElection.resourceName": ("name of the lease", "a second scheduler needs its own"),
    "leaderElection.resourceNamespace": ("namespace of the lease", "as said"),
    "clientConnection": ("how to reach the API server", ""),
    "clientConnection.kubeconfig": ("path of a kubeconfig", "empty: `--kubeconfig`, or the pod's service account"),
    "clientConnection.acceptContentTypes": ("media types asked for", _WHY_JSON),
    "clientConnection.contentType": ("media type of what is sent", _WHY_JSON),
    "clientConnection.qps": ("requests a second, on average", "watches do not count; negative: no limit"),
    "clientConnection.burst": ("requests at once beyond `qps`", "as said"),
    "enableProfiling": ("serve profiles", "off: no `/debug/` pages"),
    "enableContentionProfiling": (
        "profile waiting for locks; default: as `enableProfiling`",
        "no effect, because there are no locks to wait for",
    ),
    "percentageOfNodesToScore": (
        "how much of the cluster to search for feasible nodes, in percent; 0: adapted to its size",
        "limits plugins that look at one node at a time; vector plugins always see all nodes unless this is set",
    ),
    "podInitialBackoffSeconds": ("first pause after a failed attempt", "doubled with each further attempt"),
    "podMaxBackoffSeconds": ("longest pause after a failed attempt", "as said"),
    "profiles": ("schedulers in this process; pods choose by `spec.schedulerName`", "none: one with all defaults"),
    "profiles[].schedulerName": (
        "name that pods ask for; must differ between profiles",
        "pods of other names are counted but not scheduled. Only a single profile gets the default",
    ),
    "profiles[].percentageOfNodesToScore": ("as the global one, for this profile", "overrides the global one"),
    "profiles[].plugins": ("plugins by extension point, see [Plugin sets](#plugin-sets)", ""),
    "profiles[].plugins.preEnqueue": ("may a pod enter the queue?", _POINT),
    "profiles[].plugins.preEnqueue.enabled": ("plugins to run, in this order", "see [Plugin sets](#plugin-sets)"),
    "profiles[].plugins.preEnqueue.enabled[].name": ("the plugin's name", "an unknown name is an error"),
    "profiles[].plugins.preEnqueue.enabled[].weight": (
        "factor of the plugin's score; 0 means 1",
        "counts in `score` and `multiPoint`, no effect elsewhere, because only scores are weighted",
    ),
    "profiles[].plugins.preEnqueue.disabled": ("`multiPoint` plugins to keep out; `*` for all", "as said"),
    "profiles[].plugins.preEnqueue.disabled[].name": ("the plugin's name or `*`", "an unknown name is logged"),
    "profiles[].plugins.preEnqueue.disabled[].weight": (
        "accepted as in the original",
        "no effect, because what is disabled has no score",
    ),
    "profiles[].plugins.queueSort": ("which pod is next?", "exactly one plugin, the same in all profiles"),
    "profiles[].plugins.preFilter": ("prepares a pod's filters, may narrow the nodes", _POINT),
    "profiles[].plugins.filter": ("can the node run the pod?", _POINT),
    "profiles[].plugins.postFilter": ("what to do when no node fits: preemption", "until one makes room"),
    "profiles[].plugins.preScore": ("prepares a pod's scores", _POINT),
    "profiles[].plugins.score": ("how good is the node, 0 to 100?", "weighted sum; the best node wins"),
    "profiles[].plugins.reserve": ("hold what the pod will need", "undone in reverse order on failure"),
    "profiles[].plugins.permit": ("approve, delay or refuse the binding", _POINT),
    "profiles[].plugins.preBind": ("work before the binding, such as volumes", _POINT),
    "profiles[].plugins.bind": ("write the binding", "the first that does not skip wins"),
    "profiles[].plugins.postBind": ("told after the binding", _POINT),
    "profiles[].plugins.multiPoint": ("plugins for all extension points that they have", _POINT),
    "profiles[].plugins.placementGenerate": ("placements of a pod group", _WHY_NO_GROUPS),
    "profiles[].plugins.placementScore": ("scores of placements of a pod group", _WHY_NO_GROUPS),
    "profiles[].pluginConfig": ("args of plugins", "plugins not listed have their default args"),
    "profiles[].pluginConfig[].name": ("the plugin's name; not twice", "a plugin that does not run is logged"),
    "profiles[].pluginConfig[].args": ("see [Plugin args](#plugin-args)", "given to the plugin when it is made"),
    "extenders": ("webhooks that take part in decisions", "called in this order; ignorable ones last"),
    "extenders[].urlPrefix": ("where the extender listens", "each verb is appended to it"),
    "extenders[].filterVerb": ("verb of the filter call; empty: none", "nodes that it returns remain"),
    "extenders[].preemptVerb": ("verb of the preemption call; empty: none", "may take candidates away"),
    "extenders[].prioritizeVerb": ("verb of the scoring call; empty: none", "its scores 0 to 10 are added"),
    "extenders[].weight": ("factor of its scores; positive where `prioritizeVerb` is set", "as said"),
    "extenders[].bindVerb": ("verb of the binding call; at most one extender has it", "replaces the bind plugins"),
    "extenders[].enableHTTPS": ("speak HTTPS", "as said"),
    "extenders[].tlsConfig": ("certificates for it; files must be readable at the start", ""),
    "extenders[].tlsConfig.insecure": ("do not verify the server", "for tests only"),
    "extenders[].tlsConfig.serverName": ("name to verify the server's certificate against", "default: the URL's host"),
    "extenders[].tlsConfig.certFile": ("client certificate", "as said"),
    "extenders[].tlsConfig.keyFile": ("key of the client certificate", "as said"),
    "extenders[].tlsConfig.caFile": ("certificates to trust", "as said"),
    "extenders[].tlsConfig.certData": ("client certificate, PEM", "goes before `certFile`"),
    "extenders[].tlsConfig.keyData": ("key of the client certificate, PEM", "goes before `keyFile`; shown nowhere"),
    "extenders[].tlsConfig.caData": ("certificates to trust, PEM", "goes before `caFile`"),
    "extenders[].httpTimeout": ("limit of one call", "a late filter fails the attempt, late scores are dropped"),
    "extenders[].nodeCacheCapable": ("send names of nodes instead of nodes", "as said"),
    "extenders[].managedResources": (
        "extended resources it manages; empty: all pods are sent to it",
        "only pods that ask for one of them are sent",
    ),
    "extenders[].managedResources[].name": ("name of the resource; not twice", "as said"),
    "extenders[].managedResources[].ignoredByScheduler": (
        "let only the extender check it",
        "NodeResourcesFit ignores it; these replace `ignoredResources` of its args",
    ),
    "extenders[].ignorable": ("go on without it when it fails", "else the attempt fails"),
    "delayCacheUntilActive": ("fill caches only as leader", "less memory for a standby, a slower takeover"),
}

_RESOURCE_WEIGHT = ("factor of the resource, 1 to 100; 0 means 1", "as said")
_NO_DEVICES = "no effect, because devices are not allocated yet: pods with claims wait"

_ARGS_MEANING: dict[tuple[str, str], tuple[str, str]] = {
    ("DefaultPreemption", "minCandidateNodesPercentage"): (
        "least share of nodes to try preemption on, in percent",
        "the larger of both limits counts",
    ),
    ("DefaultPreemption", "minCandidateNodesAbsolute"): ("least number of nodes to try preemption on", "as above"),
    ("DynamicResources", "filterTimeout"): (
        "limit of the search for devices on one node; 0: none. Refused while its gate is off",
        _NO_DEVICES,
    ),
    ("DynamicResources", "bindingTimeout"): (
        "limit of waiting for binding conditions of devices, at least `1s`. Refused while its gates are off",
        _NO_DEVICES,
    ),
    ("InterPodAffinity", "hardPodAffinityWeight"): (
        "weight of the required affinity of placed pods to the new pod, 0 to 100",
        "0: it does not score",
    ),
    ("InterPodAffinity", "ignorePreferredTermsOfExistingPods"): (
        "leave preferred terms of placed pods out of the scores of a pod without affinity",
        "saves work in large clusters",
    ),
    ("NodeAffinity", "addedAffinity"): (
        "a `nodeAffinity` as in a pod",
        "holds for every pod of the profile beside its own",
    ),
    ("NodeResourcesBalancedAllocation", "resources"): ("resources to balance; none twice", "as said"),
    ("NodeResourcesBalancedAllocation", "resources[].name"): ("name of the resource", "as said"),
    ("NodeResourcesBalancedAllocation", "resources[].weight"): ("must be 1", "checked"),
    ("NodeResourcesFit", "ignoredResources"): ("extended resources that Filter ignores", "still counted in scores"),
    ("NodeResourcesFit", "ignoredResourceGroups"): (
        "groups of them: `example.com` for all `example.com/...`",
        "still counted in scores",
    ),
    ("NodeResourcesFit", "scoringStrategy"): ("how nodes are scored", ""),
    ("NodeResourcesFit", "scoringStrategy.type"): (
        "`LeastAllocated`, `MostAllocated` or `RequestedToCapacityRatio`; required inside `scoringStrategy`",
        "spread, pack, or follow the shape",
    ),
    ("NodeResourcesFit", "scoringStrategy.resources"): ("resources that count; default: cpu and memory", "as said"),
    ("NodeResourcesFit", "scoringStrategy.resources[].name"): ("name of the resource", "as said"),
    ("NodeResourcesFit", "scoringStrategy.resources[].weight"): _RESOURCE_WEIGHT,
    ("NodeResourcesFit", "scoringStrategy.requestedToCapacityRatio"): ("only with the type of that name", ""),
    ("NodeResourcesFit", "scoringStrategy.requestedToCapacityRatio.shape"): (
        "points of a line from utilization to score, by rising utilization",
        "interpolated between points",
    ),
    ("NodeResourcesFit", "scoringStrategy.requestedToCapacityRatio.shape[].utilization"): ("0 to 100", "as said"),
    ("NodeResourcesFit", "scoringStrategy.requestedToCapacityRatio.shape[].score"): ("0 to 10", "as said"),
    ("PodTopologySpread", "defaultConstraints"): (
        "constraints for pods without any, as in a pod but without `labelSelector`",
        "selectors are taken from the pod's services and workload. Only with `defaultingType: List`",
    ),
    ("PodTopologySpread", "defaultConstraints[].maxSkew"): ("as in a pod; at least 1", "as in a pod"),
    ("PodTopologySpread", "defaultConstraints[].topologyKey"): ("as in a pod", "as in a pod"),
    ("PodTopologySpread", "defaultConstraints[].whenUnsatisfiable"): (
        "`DoNotSchedule` or `ScheduleAnyway`",
        "as in a pod",
    ),
    ("PodTopologySpread", "defaultConstraints[].labelSelector"): ("must be absent", "checked"),
    ("PodTopologySpread", "defaultConstraints[].minDomains"): ("as in a pod", "as in a pod"),
    ("PodTopologySpread", "defaultConstraints[].nodeAffinityPolicy"): ("as in a pod", "as in a pod"),
    ("PodTopologySpread", "defaultConstraints[].nodeTaintsPolicy"): ("as in a pod", "as in a pod"),
    ("PodTopologySpread", "defaultConstraints[].matchLabelKeys"): ("as in a pod", "as in a pod"),
    ("PodTopologySpread", "defaultingType"): (
        "`System`: spread over hosts (skew 3) and zones (skew 5) where possible; `List`: `defaultConstraints`",
        "as said",
    ),
    ("VolumeBinding", "bindTimeoutSeconds"): ("limit of binding a pod's volumes; 0: no waiting", "the attempt fails"),
    ("VolumeBinding", "shape"): (
        "points of a line from utilization to score. Refused unless its gate is on",
        "scores nodes by the storage that they have left",
    ),
    ("VolumeBinding", "shape[].utilization"): ("0 to 100", "as said"),
    ("VolumeBinding", "shape[].score"): ("0 to 10", "as said"),
}

if __name__ == "__main__":
    main()
