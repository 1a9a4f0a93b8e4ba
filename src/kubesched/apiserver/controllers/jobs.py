"""Jobs: pods until enough of them have succeeded, or too many have failed."""

from __future__ import annotations

from kubesched.apiserver.controllers.base import PODS, PodOwner, condition, is_ready
from kubesched.apiserver.metadata import epoch
from kubesched.apiserver.resources import BY_PATH
from kubesched.apiserver.store import Json, Stored
from kubesched.workloads import is_active, missing_job_pods

_JOBS = BY_PATH["batch", "v1", "jobs"]


class Jobs(PodOwner):
    name = "job-controller"
    component = "job-controller"
    owner = _JOBS
    watched = (_JOBS, PODS)

    def settle(self, key: str) -> None:
        stored = self.find(_JOBS, key)
        if stored is None:
            return
        job = stored.document()
        pods = self.own_pods(job)
        if "deletionTimestamp" in job["metadata"]:
            return
        if _finished(job):
            self._end_of_life(stored, job)
            return
        verdict = self._verdict(job, pods)
        active = [(s, p) for s, p in pods if is_active(p)]
        if verdict is not None or job["spec"].get("suspend"):
            for running, _ in active:
                self.delete_pod(job, running)
        else:
            for pod in missing_job_pods(job, [document for _, document in pods]):
                pod["metadata"]["generateName"] = _prefix(job, pod)
                del pod["metadata"]["name"]
                self.create_pod(job, pod)
            for running, _ in active[max(job["spec"].get("parallelism", 1), 0) :]:
                self.delete_pod(job, running)
        self._tell(stored, job, verdict)

    def _verdict(self, job: Json, pods: list[tuple[Stored, Json]]) -> tuple[str, str, str] | None:
        """Type, reason and message of the condition that ends the job, None while it goes on."""
        spec = job["spec"]
        succeeded, failed = _count(pods, "Succeeded"), _count(pods, "Failed")
        completions = spec.get("completions")
        if completions is not None and succeeded >= completions:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        if completions is None and succeeded and not any(is_active(pod) for _, pod in pods):
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        if failed > spec.get("backoffLimit", 6):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline_s, began = spec.get("activeDeadlineSeconds"), (job.get("status") or {}).get("startTime")
        if deadline_s is not None and began and not spec.get("suspend"):
            left_s = epoch(began) + deadline_s - self.api.clock.now()
            if left_s <= 0:
                return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
            self.enqueue_later(f"{job['metadata']['namespace']}/{job['metadata']['name']}", left_s)
        return None

    def _tell(self, stored: Stored, job: Json, verdict: tuple[str, str, str] | None) -> None:
        pods = [(pod, pod.document()) for pod in self.owners.owned(PODS, stored.uid)]
        before, now = job.get("status") or {}, self.api.now()
        running = [pod for _, pod in pods if is_active(pod)]
        status: Json = {name: before[name] for name in ("conditions", "startTime") if name in before}
        if not job["spec"].get("suspend"):
            status.setdefault("startTime", now)
        counts = {
            "active": len(running),
            "succeeded": _count(pods, "Succeeded"),
            "failed": _count(pods, "Failed"),
        }
        status |= {name: count for name, count in counts.items() if count}
        status |= {"terminating": sum("deletionTimestamp" in pod["metadata"] for _, pod in pods)}
        status |= {"ready": sum(map(is_ready, running)), "uncountedTerminatedPods": {}}
        if verdict is not None:
            type_, reason, message = verdict
            first = "SuccessCriteriaMet" if type_ == "Complete" else "FailureTarget"
            status["conditions"] = [
                {
                    "type": name,
                    "status": "True",
                    "lastProbeTime": now,
                    "lastTransitionTime": now,
                    "reason": reason,
                    "message": message,
                }
                for name in (first, type_)
            ]
            if type_ == "Complete":
                status["completionTime"] = now
                self.event(job, "Normal", "Completed", "Job completed")
            else:
                self.event(job, "Warning", reason, message)
        document = stored.document()
        document["status"] = status
        self.update_status(_JOBS, stored, document)

    def _end_of_life(self, stored: Stored, job: Json) -> None:
        """A finished job with a time to live goes after it."""
        ttl_s = job["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return
        ended = condition(job, "Complete") or condition(job, "Failed")
        assert ended is not None
        left_s = epoch(ended["lastTransitionTime"]) + ttl_s - self.api.clock.now()
        if left_s > 0:
            self.enqueue_later(stored.key, left_s)
        else:
            self.delete(_JOBS, stored)


def _finished(job: Json) -> bool:
    return any(
        (found := condition(job, type_)) is not None and found["status"] == "True" for type_ in ("Complete", "Failed")
    )


def _count(pods: list[tuple[Stored, Json]], phase: str) -> int:
    return sum(pod["status"].get("phase") == phase for _, pod in pods)


def _prefix(job: Json, pod: Json) -> str:
    index = (pod["metadata"].get("annotations") or {}).get("batch.kubernetes.io/job-completion-index")
    return f"{job['metadata']['name']}-" if index is None else f"{job['metadata']['name']}-{index}-"
