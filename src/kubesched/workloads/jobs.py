"""Jobs: as many pods at a time as may run in parallel, until enough have succeeded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubesched.workloads.templates import Doc, generated_name, has_template, is_active, owned_by, pod_from

_INDEX = "batch.kubernetes.io/job-completion-index"


def missing_job_pods(job: Mapping[str, Any], pods: Iterable[Doc]) -> list[Doc]:
    """The pods that the job would start beside those of `pods` that are its own."""
    spec = job["spec"]
    if spec.get("suspend") or not has_template(job):
        return []
    own = owned_by(job, pods)
    active = [pod for pod in own if is_active(pod)]
    succeeded = max(
        sum((pod.get("status") or {}).get("phase") == "Succeeded" for pod in own),
        int((job.get("status") or {}).get("succeeded") or 0),
    )
    parallelism = spec.get("parallelism")
    parallel = 1 if parallelism is None else int(parallelism)
    completions = spec.get("completions")
    if completions is not None:
        parallel = min(parallel, int(completions) - succeeded)
    elif succeeded:
        parallel = 0  # one success ends a job that asks for no number of them
    if spec.get("completionMode") == "Indexed" and completions is not None:
        return _indexed(job, own, int(completions), parallel - len(active))
    return _unindexed(job, own, len(active), parallel)


def _unindexed(job: Mapping[str, Any], own: list[Doc], active: int, parallel: int) -> list[Doc]:
    taken = {pod["metadata"]["name"] for pod in own}
    made = []
    for number in range(active, parallel):
        name = generated_name(job["metadata"]["name"], number, taken)
        taken.add(name)
        made.append(pod_from(job, name, _labels(job)))
    return made


def _indexed(job: Mapping[str, Any], own: list[Doc], completions: int, room: int) -> list[Doc]:
    held = {
        (pod["metadata"].get("annotations") or {}).get(_INDEX)
        for pod in own
        if (pod.get("status") or {}).get("phase") != "Failed"
    }
    made: list[Doc] = []
    for index in range(completions):
        if len(made) >= room:
            break
        if str(index) in held:
            continue
        pod = pod_from(
            job, generated_name(f"{job['metadata']['name']}-{index}", 0), {**_labels(job), _INDEX: str(index)}
        )
        pod["metadata"]["annotations"][_INDEX] = str(index)
        made.append(pod)
    return made


def _labels(job: Mapping[str, Any]) -> dict[str, str]:
    name, uid = job["metadata"]["name"], job["metadata"].get("uid") or ""
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    if uid:
        labels |= {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid}
    return labels
