"""Configurations that must be refused, each with the message that an operator sees; and that nothing else escapes."""

from datetime import date
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.config import API_VERSION, ConfigError, FeatureGates, PluginInfo, load

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PROFILE = HEAD + "profiles:\n- schedulerName: a\n"


def args(plugin, text):
    return PROFILE + f"  pluginConfig:\n  - name: {plugin}\n    args: {text}\n"


BUILD = "initializing profiles: creating profile for scheduler name a: "
FIT = BUILD + 'initializing plugin "NodeResourcesFit": '
ARGS = "profiles[0].pluginConfig[0].args."
NODE_TERMS = ARGS + "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."


def node_term(term):
    required = "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" + term + "]}}"
    return args("NodeAffinity", "{addedAffinity: " + required + "}")


# id, text, (line in the file, message) for each problem in order
CASES = [
    # the document
    ("empty", "", [(0, "Object 'Kind' is missing: a configuration begins with `kind: KubeSchedulerConfiguration`")]),
    ("only a comment", "# nothing\n", [(0, "Object 'Kind' is missing")]),
    ("a list", "- a\n- b\n", [(0, "the document is a list, not a KubeSchedulerConfiguration")]),
    ("a word", "hello\n", [(0, "the document is a single value, not a KubeSchedulerConfiguration")]),
    ("no version", "kind: KubeSchedulerConfiguration\n", [(0, "Object 'apiVersion' is missing")]),
    ("kind is a number", "apiVersion: v1\nkind: 5\n", [(2, "kind: must be a string")]),
    (
        "another group",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
        [(1, 'no kind "KubeletConfiguration" is registered for version "kubelet.config.k8s.io/v1beta1"')],
    ),
    (
        "v1beta2 says what to change",
        "apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration\n",
        [(1, "change apiVersion to kubescheduler.config.k8s.io/v1. Since v1beta2: healthzBindAddress")],
    ),
    (
        "a policy says what to change",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: Policy\n",
        [(2, "policies are profiles now")],
    ),
    ("unclosed quote", HEAD + 'profiles: "a\n', [(4, "yaml: line 4: found unexpected end of stream")]),
    ("a tab", HEAD + "leaderElection:\n\tleaderElect: true\n", [(4, "cannot start any token")]),
    ("bytes that are no text", b"\xff\xfe\x00", [(0, "not a text in UTF-8: byte 0 is 0xff")]),
    ("a binary", b"\x7fELF\x02\x01\x01" + bytes(100), [(0, "control characters are not allowed")]),
    ("too large", HEAD + "#" * 5_000_000, [(0, "larger than 4 MiB")]),
    ("too deep", HEAD + "profiles: " + "[" * 200, [(3, "nested more than 100 levels deep")]),
    ("unknown anchor", HEAD + "profiles: *p\n", [(3, "anchor 'p' is not defined")]),
    ("anchor in itself", HEAD + "profiles: &p [*p]\n", [(3, "anchor 'p' value contains itself")]),
    (
        "billion laughs",
        HEAD + "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
        "" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
        [(7, "document contains excessive aliasing")],
    ),
    ("tag of Python", HEAD + "parallelism: !!python/name:os.system ''\n", [(3, "unknown tag")]),
    ("infinite", HEAD + "clientConnection: {qps: .inf}\n", [(3, "no number that JSON can hold")]),
    ("a mapping as key", HEAD + "{a: b}: c\n", [(3, "a key must be a text")]),
    # strictness
    (
        "duplicate field",
        HEAD + "parallelism: 1\nparallelism: 2\n",
        [(4, 'strict decoding error: duplicate field "parallelism"')],
    ),
    (
        "duplicate field inside",
        PROFILE + "  plugins: {score: {enabled: []}, score: {}}\n",
        [(5, 'strict decoding error: duplicate field "profiles[0].plugins.score"')],
    ),
    (
        "several unknown fields",
        PROFILE + "  pluginConfigs: []\nleaderElections: {}\n",
        [
            (5, 'unknown field "profiles[0].pluginConfigs" (did you mean "pluginConfig"?)'),
            (6, 'unknown field "leaderElections" (did you mean "leaderElection"?)'),
        ],
    ),
    ("wrong case", HEAD + "Parallelism: 3\n", [(3, 'unknown field "Parallelism" (did you mean "parallelism"?)')]),
    ("field of v1.37", HEAD + "percentageOfPlacementsToScore: 5\n", [(3, "unknown field")]),
    (
        "field of v1beta2",
        HEAD + "healthzBindAddress: 0.0.0.0:10251\n",
        [(3, 'unknown field "healthzBindAddress"')],
    ),
    (
        "profiles is a mapping",
        HEAD + "profiles: {}\n",
        [(3, "profiles: cannot unmarshal object into a field of type array")],
    ),
    (
        "a profile is a text",
        HEAD + "profiles: [x]\n",
        [(3, 'profiles[0]: cannot unmarshal string "x" into a field of type')],
    ),
    (
        "a name is a number",
        HEAD + "profiles: [{schedulerName: 5}]\n",
        [(3, "schedulerName: cannot unmarshal number 5")],
    ),
    (
        "a boolean is a text",
        HEAD + 'enableProfiling: "yes"\n',
        [(3, 'cannot unmarshal string "yes" into a field of type bool')],
    ),
    ("a fraction", HEAD + "parallelism: 1.5\n", [(3, "cannot unmarshal number 1.5 into a field of type int32")]),
    ("beyond int32", HEAD + "parallelism: 3000000000\n", [(3, "number 3000000000 into a field of type int32")]),
    (
        "weight beyond int32",
        PROFILE + "  plugins: {score: {enabled: [{name: x, weight: 1e10}]}}\n",
        [(5, "of type int32")],
    ),
    ("duration without unit", HEAD + "leaderElection: {retryPeriod: '2'}\n", [(3, 'missing unit in duration "2"')]),
    ("base64", HEAD + "extenders: [{tlsConfig: {certData: '%%'}}]\n", [(3, "illegal base64 data")]),
    ("huge qps", HEAD + "clientConnection: {qps: 1e300}\n", [(3, "of type float32")]),
    # leader election, client
    ("renew deadline negative", HEAD + "leaderElection: {renewDeadline: -1s}\n", [(3, "must be greater than zero")]),
    (
        "retry negative",
        HEAD + "leaderElection: {retryPeriod: -1s}\n",
        [(3, "leaderElection.retryPeriod: Invalid value")],
    ),
    (
        "lock of old",
        HEAD + "leaderElection: {resourceLock: endpoints}\n",
        [(3, 'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"')],
    ),
    (
        "burst negative",
        HEAD + "clientConnection: {burst: -1}\n",
        [(3, "clientConnection.burst: Invalid value: -1: must be non-")],
    ),
    (
        "backoff zero",
        HEAD + "podInitialBackoffSeconds: 0\n",
        [(3, "podInitialBackoffSeconds: Invalid value: 0: must be greater")],
    ),
    # plugins
    (
        "unknown plugin at a point",
        PROFILE + "  plugins: {filter: {enabled: [{name: Gpu}]}}\n",
        [(5, BUILD + 'FilterPlugin "Gpu" does not exist (if it is your own: --plugin FILE:CLASS)')],
    ),
    (
        "misspelled plugin",
        PROFILE + "  plugins: {score: {enabled: [{name: NodeResourceFit}]}}\n",
        [(5, BUILD + 'ScorePlugin "NodeResourceFit" does not exist (did you mean "NodeResourcesFit"?)')],
    ),
    (
        "unknown plugin in multiPoint",
        PROFILE + "  plugins: {multiPoint: {enabled: [{name: Gpu}]}}\n",
        [(5, BUILD + 'PreFilterPlugin "Gpu" does not exist')],
    ),
    (
        "twice in multiPoint",
        PROFILE + "  plugins: {multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}}\n",
        [(5, BUILD + 'plugin "NodeName" already registered as "FilterPlugin"')],
    ),
    (
        "removed plugin in multiPoint",
        PROFILE + "  plugins: {multiPoint: {enabled: [{name: GCEPDLimits}]}}\n",
        [(5, BUILD + 'PreFilterPlugin "GCEPDLimits" does not exist (NodeVolumeLimits does what it did)')],
    ),
    (
        "args of a removed plugin",
        args("CinderLimits", "{}"),
        [(6, 'profiles[0].pluginConfig[0]: Invalid value: "CinderLimits": was invalid in version "v1"')],
    ),
    (
        "no bind plugin",
        PROFILE + "  plugins: {bind: {disabled: [{name: '*'}]}}\n",
        [(5, BUILD + 'at least one bind plugin is needed for profile with scheduler name "a"')],
    ),
    (
        "different queue sort sets",
        PROFILE + "- schedulerName: b\n  plugins: {queueSort: {enabled: [{name: PrioritySort}]}}\n",
        [(6, "profiles[1].plugins.queueSort: Invalid value: ")],
    ),
    (
        "args given twice",
        PROFILE + "  pluginConfig: [{name: NodeAffinity, args: {}}, {name: NodeAffinity, args: {}}]\n",
        [(5, 'profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"')],
    ),
    (
        "args are a list",
        args("NodeAffinity", "[]"),
        [(7, "decoding args for plugin NodeAffinity: cannot unmarshal array")],
    ),
    (
        "args of another version",
        args("NodeAffinity", "{apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: NodeAffinityArgs}"),
        [(7, 'no kind "NodeAffinityArgs" is registered for version "kubescheduler.config.k8s.io/v1beta3"')],
    ),
    (
        "args of an unknown kind",
        args("NodeAffinity", "{kind: Affinity}"),
        [(7, 'decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeAffinity: no kind "Affinity" is')],
    ),
    (
        "args with a wrong type",
        args("VolumeBinding", "{bindTimeoutSeconds: soon}"),
        [(7, 'decoding args for plugin VolumeBinding: bindTimeoutSeconds: cannot unmarshal string "soon"')],
    ),
    # args
    (
        "preemption both zero",
        args("DefaultPreemption", "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}"),
        [
            (7, ARGS + "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as"),
            (7, ARGS + "minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as"),
        ],
    ),
    ("dra filter timeout", args("DynamicResources", "{filterTimeout: -1s}"), [(7, '"-1s": must be zero or positive')]),
    (
        "dra binding timeout",
        args("DynamicResources", "{bindingTimeout: 10ms}"),
        [(7, '"10ms": must be at least 1 second')],
    ),
    (
        "hard weight",
        args("InterPodAffinity", "{hardPodAffinityWeight: 101}"),
        [(7, "101: not in valid range [0, 100]")],
    ),
    (
        "balanced weight",
        args("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}, {name: cpu}]}"),
        [
            (7, ARGS + "resources[0].weight: Invalid value: 2: must be 1"),
            (7, ARGS + 'resources[1].name: Duplicate value: "cpu"'),
        ],
    ),
    (
        "shape without its gate",
        args("VolumeBinding", "{shape: []}"),
        [(7, "turn on the feature gate StorageCapacityScoring")],
    ),
    (
        "spread skew",
        args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{topologyKey: 'a b'}]}"),
        [
            (7, ARGS + "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)"),
            (7, ARGS + 'defaultConstraints[0].topologyKey: Invalid value: "a b": name part must consist of'),
            (7, ARGS + "defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty"),
        ],
    ),
    (
        "spread constraint twice",
        args(
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: ["
            "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule},"
            " {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}",
        ),
        [(7, ARGS + 'defaultConstraints[1]: Duplicate value: "{zone, DoNotSchedule}"')],
    ),
    ("affinity In", node_term("{matchExpressions: [{key: a, operator: In}]}"), [(7, "values set can't be empty")]),
    (
        "affinity Exists",
        node_term("{matchExpressions: [{key: a, operator: Exists, values: [b]}]}"),
        [(7, NODE_TERMS + 'matchExpressions[0].values: Invalid value: ["b"]: values set must be empty for exists')],
    ),
    (
        "affinity Gt",
        node_term("{matchExpressions: [{key: a, operator: Gt, values: [many]}]}"),
        [
            (
                7,
                NODE_TERMS
                + "matchExpressions[0].values[0]: Invalid value: \"many\": for 'Gt', 'Lt' operators, the value",
            )
        ],
    ),
    (
        "affinity key",
        node_term("{matchExpressions: [{key: /a, operator: Exists}]}"),
        [(7, NODE_TERMS + 'matchExpressions[0].key: Invalid value: "/a": prefix part must be non-empty')],
    ),
    (
        "affinity field operator",
        node_term("{matchFields: [{key: metadata.name, operator: Exists}]}"),
        [(7, NODE_TERMS + 'matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"')],
    ),
    (
        "affinity field values",
        node_term("{matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}"),
        [(7, NODE_TERMS + 'matchFields[0].values: Invalid value: ["a","b"]: must have one element')],
    ),
    (
        "ratio without points",
        args("NodeResourcesFit", "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {}}}"),
        [(7, FIT + "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point")],
    ),
    (
        "ratio score",
        args(
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio,"
            " requestedToCapacityRatio: {shape: [{utilization: 0, score: 11}]}}}",
        ),
        [
            (
                7,
                FIT + "scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid range",
            )
        ],
    ),
    (
        "ratio of another strategy",
        args("NodeResourcesFit", "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}"),
        [(7, FIT + "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not")],
    ),
    (
        "strategy without a type",
        args("NodeResourcesFit", "{scoringStrategy: {resources: []}}"),
        [(7, FIT + 'scoringStrategy.type: Unsupported value: ""')],
    ),
    (
        "resource weight",
        args("NodeResourcesFit", "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}}"),
        [(7, "resource weight of cpu not in valid range (0, 100]")],
    ),
    # extenders
    (
        "managed resource twice",
        HEAD + "extenders: [{managedResources: [{name: a.b/c}, {name: a.b/c}]}]\n",
        [
            (
                3,
                'extenders[0].managedResources[1].name: Invalid value: "a.b/c": duplicate extender managed resource',
            )
        ],
    ),
    (
        "managed native resource",
        HEAD + "extenders: [{managedResources: [{name: kubernetes.io/x}]}]\n",
        [(3, "is an invalid extended resource name")],
    ),
    (
        "prioritize without weight",
        HEAD + "extenders: [{prioritizeVerb: p}]\n",
        [(3, "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it")],
    ),
    (
        "managed resource without fit",
        PROFILE + "  plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}\n"
        "extenders: [{managedResources: [{name: a.b/c, ignoredByScheduler: true}]}]\n",
        [(4, "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config")],
    ),
    (
        "key file is a folder",
        HEAD + "extenders: [{tlsConfig: {keyFile: /}}]\n",
        [(3, "couldn't build extenders: open /: is a directory")],
    ),
    # several at once
    (
        "all problems are told",
        HEAD + "parallelism: -1\npercentageOfNodesToScore: 200\npodInitialBackoffSeconds: -5\n",
        [
            (3, "parallelism: Invalid value: -1"),
            (4, "percentageOfNodesToScore: Invalid value: 200"),
            (5, "podInitialBackoffSeconds: Invalid value: -5"),
        ],
    ),
]


@pytest.mark.parametrize(("text", "problems"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_refused(text, problems):
    with pytest.raises(ConfigError) as caught:
        load(text, name="sched.yaml")
    lines = str(caught.value).splitlines()
    assert [error.line for error in caught.value.errors] == [line for line, _ in problems]
    assert len(lines) == len(problems)
    for shown, (number, message) in zip(lines, problems, strict=True):
        assert shown.startswith(f"sched.yaml:{number}: " if number else "sched.yaml: ")
        assert message in shown


def test_a_missing_file(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "none.yaml")
    assert str(caught.value) == f"open {tmp_path / 'none.yaml'}: no such file or directory"


def test_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="is a directory"):
        load(tmp_path)


def test_a_path_with_a_null_byte():
    with pytest.raises(ConfigError, match="null"):
        load(Path("a\0b"))


def test_a_file_is_named_in_each_line(tmp_path):
    path = tmp_path / "sched.yaml"
    path.write_text(HEAD + "parallelism: 0\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:3: parallelism: Invalid value: 0")


@pytest.mark.parametrize(
    "data",
    [{1: 2}, {"kind": None}, {"apiVersion": [], "kind": {}}, {"profiles": date(2026, 1, 1)}, {"parallelism": {1, 2}}],
    ids=repr,
)
def test_plain_data_of_any_sort_gives_nothing_but_a_config_error(data):
    whole = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **data}
    with pytest.raises(ConfigError):
        load(whole)


class GpuArgs(msgspec.Struct, frozen=True, rename="camel"):
    model: str
    spread_over: tuple[str, ...] = ()


GPU = PluginInfo("Gpu", frozenset({"filter", "score"}), GpuArgs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{model: a, modle: b}", 'strict decoding error: unknown field "modle" (did you mean "model"?)'),
        ("{}", "decoding args for plugin Gpu: model: Required value"),
        ("{model: 5}", "model: cannot unmarshal number 5 into a field of type string"),
        ("{model: a, spreadOver: b}", 'spreadOver: cannot unmarshal string "b" into a field of type array'),
    ],
)
def test_args_of_a_plugin_from_outside_are_as_strict(text, message):
    with pytest.raises(ConfigError) as caught:
        load(args("Gpu", text), plugins=[GPU], name="f")
    assert message in str(caught.value)
    assert caught.value.errors[0].line == 7


def test_a_plugin_from_outside_cannot_take_an_in_tree_name():
    with pytest.raises(ValueError, match="a plugin named NodeName already exists"):
        load(None, plugins=[PluginInfo("NodeName", frozenset({"filter"}))])


@pytest.mark.parametrize(
    ("gates", "text", "message"),
    [
        (
            "DRASchedulerFilterTimeout",
            "{filterTimeout: 1s}",
            "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature",
        ),
        (
            "DRADeviceBindingConditions",
            "{bindingTimeout: 5s}",
            "bindingTimeout: Forbidden: DRADeviceBindingConditions or",
        ),
        (
            "DRAResourceClaimDeviceStatus DRADeviceBindingConditions",
            "{bindingTimeout: 5s}",
            "bindingTimeout: Forbidden: DRADeviceBindingConditions or",
        ),
    ],
)
def test_a_field_whose_gate_is_off_is_refused(gates, text, message):
    with pytest.raises(ConfigError) as caught:
        load(args("DynamicResources", text), gates=FeatureGates(dict.fromkeys(gates.split(), False)))
    assert message in str(caught.value)


def test_a_value_of_several_lines_is_shown_in_one():
    with pytest.raises(ConfigError) as caught:
        load({"apiVersion": API_VERSION, "kind": "Several\nlines"}, name="f")
    [line] = str(caught.value).splitlines()
    assert line.startswith(r'f: no kind "Several\nlines" is registered')


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
FIELDS = """
apiVersion kind profiles schedulerName plugins pluginConfig name args enabled disabled weight score filter multiPoint
extenders managedResources leaderElection leaseDuration scoringStrategy resources parallelism clientConnection qps
addedAffinity requiredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms matchExpressions key operator values
tlsConfig certData defaultConstraints shape requestedToCapacityRatio
"""
PLUGINS = "NodeResourcesFit NodeAffinity PodTopologySpread VolumeBinding DynamicResources * Foo"
names = st.sampled_from(FIELDS.split())
plugin_names = st.sampled_from(PLUGINS.split())
trees = st.recursive(
    scalars | plugin_names,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | st.text(max_size=4), inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(names, trees, max_size=6))
def test_any_data_is_a_configuration_or_a_config_error(tree):
    whole = {**tree, "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    try:
        config = load(whole)
    except ConfigError as error:
        assert error.errors
        assert str(error)
    else:
        assert config.profiles


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=60)
    | st.text(max_size=60)
    | st.text(alphabet="[]{}:,-&*!|>'\"#%@`?~<= \n\tab01.", max_size=60).map(lambda tail: HEAD + tail)
)
def test_any_text_is_a_configuration_or_a_config_error(text):
    try:
        load(text, name="f")
    except ConfigError as error:
        assert all(line.startswith("f") for line in str(error).splitlines())
