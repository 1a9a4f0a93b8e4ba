"""Workloads: defaults of the controllers' fields and of the pod template, the selector must match the template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver.resources import Resource
from kubesched.apiserver.rules.base import Rules
from kubesched.apiserver.rules.pod_template import default_pod_spec
from kubesched.apiserver.rules.pod_validation import check_pod_spec, pod_spec_warnings
from kubesched.apiserver.rules.schedules import schedule_fault
from kubesched.apiserver.status import Cause, forbidden_field, invalid_value, required, unsupported
from kubesched.apiserver.store import Json

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api


def _default_template(spec: Json) -> None:
    default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _default_deployment(document: Json) -> None:
    spec = document["spec"]
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    _default_template(spec)


def _default_replica_set(document: Json) -> None:
    spec = document["spec"]
    spec.setdefault("replicas", 1)
    _default_template(spec)
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels and not document["metadata"].get("labels"):
        document["metadata"]["labels"] = dict(labels)


def _default_replica_set_only(document: Json) -> None:
    document["spec"].setdefault("replicas", 1)
    _default_template(document["spec"])


def _default_replication_controller(document: Json) -> None:
    _default_replica_set(document)
    labels = (document["spec"]["template"].get("metadata") or {}).get("labels")
    if labels:
        document["spec"].setdefault("selector", dict(labels))


def _default_stateful_set(document: Json) -> None:
    spec = document["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
    _default_template(spec)


def _default_daemon_set(document: Json) -> None:
    spec = document["spec"]
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    _default_template(spec)


def _default_job_spec(spec: Json) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    _default_template(spec)


def _default_job(document: Json) -> None:
    _default_job_spec(document["spec"])


def _default_cron_job(document: Json) -> None:
    spec = document["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    _default_template(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))


def _create_with_replicas(api: Api, resource: Resource, document: Json) -> None:
    document["status"] = {"replicas": 0}


def _create_stateful_set(api: Api, resource: Resource, document: Json) -> None:
    document["status"] = {"replicas": 0, "availableReplicas": 0}


def _create_daemon_set(api: Api, resource: Resource, document: Json) -> None:
    document["status"] = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }
    annotations = document["metadata"].setdefault("annotations", {})
    annotations["deprecated.daemonset.template.generation"] = "1"


def _create_deployment(api: Api, resource: Resource, document: Json) -> None:
    document["status"] = {}


def _create_job(api: Api, resource: Resource, document: Json) -> None:
    document["status"] = {}
    uid = document["metadata"]["uid"]
    spec = document["spec"]
    if not spec.get("manualSelector"):
        name = document["metadata"].get("name", "")
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        template = spec["template"].setdefault("metadata", {})
        template["labels"] = {
            **(template.get("labels") or {}),
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }


def _check_selected(document: Json) -> list[Cause]:
    return _check_controlled(document) + check_pod_spec(document["spec"]["template"]["spec"], "spec.template.spec")


def _check_controlled(document: Json) -> list[Cause]:
    """All but the pods themselves: those of a StatefulSet mount volumes that come from its claims, so that the original
    leaves them to be found wrong when they are made."""
    spec = document["spec"]
    selector = spec.get("selector")
    causes: list[Cause] = []
    if selector is None:
        causes.append(required("spec.selector"))
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        owner = _OWNER_IN_ERRORS.get(document["kind"], "deployment")
        causes.append(invalid_value("spec.selector", selector, f"empty selector is invalid for {owner}"))
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    wanted = (selector or {}).get("matchLabels") or {}
    if selector is not None and any(labels.get(key) != value for key, value in wanted.items()):
        causes.append(
            invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
        )
    causes += [
        invalid_value(f"spec.{name}", spec[name], "must be greater than or equal to 0")
        for name in ("replicas", "minReadySeconds", "revisionHistoryLimit")
        if (spec.get(name) or 0) < 0
    ]
    policy = spec["template"]["spec"].get("restartPolicy")
    if policy != "Always":
        causes.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return causes


def _check_deployment(document: Json) -> list[Cause]:
    return _check_selected(document) + _check_rolling(document["spec"]["strategy"], "spec.strategy")


def _check_rolling(strategy: Json, path: str) -> list[Cause]:
    """A rollout must be able to move: either more pods or fewer than wanted for a while."""
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    if kind not in ("Recreate", "RollingUpdate"):
        return [unsupported(f"{path}.type", kind, ("Recreate", "RollingUpdate"))]
    if kind == "Recreate":
        if rolling is None:
            return []
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_field(f"{path}.rollingUpdate", text)]
    zero = (0, "0%")
    if rolling and rolling.get("maxUnavailable") in zero and rolling.get("maxSurge") in zero:
        text = "may not be 0 when `maxSurge` is 0"
        return [invalid_value(f"{path}.rollingUpdate.maxUnavailable", rolling["maxUnavailable"], text)]
    return []


def _stateful_set_kept(old: Json, new: Json) -> list[Cause]:
    before, after = ({n: v for n, v in d["spec"].items() if n not in _STATEFUL_MUTABLE} for d in (old, new))
    if before == after:
        return _check_controlled(new)
    named = "', '".join(_STATEFUL_MUTABLE[:-1])
    text = f"updates to statefulset spec for fields other than '{named}' and '{_STATEFUL_MUTABLE[-1]}' are forbidden"
    return [forbidden_field("spec", text)]


def _job_kept(old: Json, new: Json) -> list[Cause]:
    causes = []
    before, after = old["spec"], new["spec"]
    if before.get("completions") != after.get("completions") and before.get("completionMode") != "Indexed":
        causes.append(invalid_value("spec.completions", after.get("completions"), "field is immutable"))
    causes += [
        invalid_value(f"spec.{name}", after.get(name), "field is immutable")
        for name in ("selector", "completionMode", "backoffLimitPerIndex")
        if before.get(name) != after.get(name)
    ]
    if not before.get("suspend") and before["template"] != after["template"]:
        causes.append(invalid_value("spec.template", after["template"], "field is immutable"))
    return causes


def _check_job(document: Json) -> list[Cause]:
    return _check_ending_pods(document["spec"]["template"]["spec"], "spec.template.spec")


def _check_ending_pods(spec: Json, path: str) -> list[Cause]:
    causes = check_pod_spec(spec, path)
    if spec.get("restartPolicy") == "Always":
        causes.append(required(f"{path}.restartPolicy", 'valid values: "OnFailure", "Never"'))
    return causes


def _check_cron_job(document: Json) -> list[Cause]:
    spec, name = document["spec"], document["metadata"].get("name", "")
    causes = []
    schedule = spec.get("schedule", "")
    if not schedule:
        causes.append(required("spec.schedule"))
    elif fault := schedule_fault(schedule):
        causes.append(invalid_value("spec.schedule", schedule, fault))
    if spec["concurrencyPolicy"] not in _CONCURRENCY:
        causes.append(unsupported("spec.concurrencyPolicy", spec["concurrencyPolicy"], _CONCURRENCY))
    path = "spec.jobTemplate.spec.template.spec"
    causes += _check_ending_pods(spec["jobTemplate"]["spec"]["template"]["spec"], path)
    causes += [
        invalid_value(f"spec.{number}", spec[number], "must be greater than or equal to 0")
        for number in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
        if (spec.get(number) or 0) < 0
    ]
    if len(name) > _CRON_NAME_LIMIT:
        text = f"must be no more than {_CRON_NAME_LIMIT} characters"
        causes.append(invalid_value("metadata.name", name, text))
    return causes


def _check_replication_controller(document: Json) -> list[Cause]:
    spec = document["spec"]
    causes = [
        invalid_value(f"spec.{name}", spec[name], "must be greater than or equal to 0")
        for name in ("minReadySeconds", "replicas")
        if (spec.get(name) or 0) < 0
    ]
    selector = spec.get("selector") or {}
    if not selector:
        causes.append(required("spec.selector"))
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if not selector.items() <= labels.items():
        text = "`selector` does not match template `labels`"
        causes.append(invalid_value("spec.template.metadata.labels", labels, text))
    causes += check_pod_spec(spec["template"]["spec"], "spec.template.spec")
    policy = spec["template"]["spec"].get("restartPolicy")
    if policy != "Always":
        causes.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return causes


def _template_warnings(document: Json) -> list[str]:
    return pod_spec_warnings(document["spec"]["template"]["spec"], "spec.template.spec")


def _selector_fixed(old: Json, new: Json) -> list[Cause]:
    before, after = old["spec"].get("selector"), new["spec"].get("selector")
    return [] if before == after else [invalid_value("spec.selector", after, "field is immutable")]


_OWNER_IN_ERRORS = {"StatefulSet": "statefulset", "DaemonSet": "daemonset"}
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_CRON_NAME_LIMIT = 52  # the names of its jobs have eleven more
_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


DEPLOYMENT = Rules(
    default=_default_deployment,
    on_create=_create_deployment,
    validate=_check_deployment,
    validate_update=_selector_fixed,
    warn=_template_warnings,
)
REPLICA_SET = Rules(
    default=_default_replica_set_only,
    on_create=_create_with_replicas,
    validate=_check_selected,
    validate_update=_selector_fixed,
    warn=_template_warnings,
)
REPLICATION_CONTROLLER = Rules(
    default=_default_replication_controller,
    on_create=_create_with_replicas,
    validate=_check_replication_controller,
    warn=_template_warnings,
)
STATEFUL_SET = Rules(
    default=_default_stateful_set,
    on_create=_create_stateful_set,
    validate=_check_controlled,
    validate_update=_stateful_set_kept,
    warn=_template_warnings,
    label_name=True,
)
DAEMON_SET = Rules(
    default=_default_daemon_set,
    on_create=_create_daemon_set,
    validate=_check_selected,
    validate_update=_selector_fixed,
    warn=_template_warnings,
)
JOB = Rules(default=_default_job, on_create=_create_job, validate=_check_job, validate_update=_job_kept)
CRON_JOB = Rules(default=_default_cron_job, validate=_check_cron_job)
