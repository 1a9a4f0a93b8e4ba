"""The controllers, each on a small cluster with simulated kubelets and a manual clock."""

from __future__ import annotations

import pytest

from kubesched.apiserver import CONTROLLERS, chosen
from tests.apiserver.lively import Json, Lively, workload

PODS = "/api/v1/namespaces/default/pods"
APPS = "/apis/apps/v1/namespaces/default"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


@pytest.fixture
def cluster() -> Lively:
    return Lively()


def running(cluster: Lively) -> list[str]:
    return [p["metadata"]["name"] for p in cluster.items(PODS) if p["status"]["phase"] == "Running"]


def condition(document: Json, type_: str) -> tuple[str, str]:
    found = next(c for c in document["status"]["conditions"] if c["type"] == type_)
    return found["status"], found.get("reason", "")


def images(cluster: Lively) -> list[str]:
    return [p["spec"]["containers"][0]["image"] for p in cluster.items(PODS)]


def set_image(cluster: Lively, path: str, image: str) -> None:
    cluster.patch(path, {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})


class TestDeployments:
    @pytest.fixture(autouse=True)
    def created(self, cluster: Lively) -> None:
        cluster.ok("POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=4))
        cluster.run()

    def test_all_pods_run(self, cluster: Lively) -> None:
        deployment = cluster.get(f"{APPS}/deployments/web")
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
        assert [deployment["status"][name] for name in counts] == [4, 4, 4, 4, 1]
        assert condition(deployment, "Available") == ("True", "MinimumReplicasAvailable")
        assert condition(deployment, "Progressing") == ("True", "NewReplicaSetAvailable")
        assert deployment["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
        (replica_set,) = cluster.items(f"{APPS}/replicasets")
        assert all(name.startswith(replica_set["metadata"]["name"] + "-") for name in running(cluster))

    @pytest.mark.parametrize("size", [0, 1, 7])
    def test_scale(self, cluster: Lively, size: int) -> None:
        cluster.ok(
            "PATCH",
            f"{APPS}/deployments/web/scale",
            {"spec": {"replicas": size}},
            "application/merge-patch+json",
        )
        cluster.run()
        assert len(running(cluster)) == size

    def test_rolling_update_keeps_its_bounds(self, cluster: Lively) -> None:
        seen: list[tuple[int, int]] = []

        class Counter:
            def offer(self, change: object) -> None:
                pods = [p for p in cluster.items(PODS) if "deletionTimestamp" not in p["metadata"]]
                asked = sum(rs["spec"]["replicas"] for rs in cluster.items(f"{APPS}/replicasets"))
                seen.append((asked, sum(p["status"]["phase"] == "Running" for p in pods)))

        collection = cluster.server.store.collections["", "pods"]
        counter = Counter()
        collection.add_watcher(counter)
        set_image(cluster, f"{APPS}/deployments/web", "app:2")
        cluster.run()
        collection.remove_watcher(counter)
        assert images(cluster) == ["app:2"] * 4
        assert max(total for total, _ in seen) == 5
        assert min(ready for _, ready in seen) == 3
        deployment = cluster.get(f"{APPS}/deployments/web")
        assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
        assert condition(deployment, "Progressing") == ("True", "NewReplicaSetAvailable")

    def test_going_back_reuses_the_old_replica_set(self, cluster: Lively) -> None:
        (first,) = cluster.items(f"{APPS}/replicasets")
        for image in ("app:2", "app:1"):
            set_image(cluster, f"{APPS}/deployments/web", image)
            cluster.run()
        sets = {rs["metadata"]["name"]: rs for rs in cluster.items(f"{APPS}/replicasets")}
        assert len(sets) == 2
        again = sets[first["metadata"]["name"]]
        assert again["spec"]["replicas"] == 4
        assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"

    def test_recreate_waits_for_the_old_pods(self, cluster: Lively) -> None:
        recreated = workload("Deployment", "one", replicas=2, strategy={"type": "Recreate"})
        cluster.ok("POST", f"{APPS}/deployments", recreated)
        cluster.run()
        held = cluster.items(f"{PODS}?labelSelector=app=one")[0]["metadata"]["name"]
        cluster.ok(
            "PATCH", f"{PODS}/{held}", {"metadata": {"finalizers": ["x.io/hold"]}}, "application/merge-patch+json"
        )
        set_image(cluster, f"{APPS}/deployments/one", "app:2")
        cluster.run(60)
        assert [p["metadata"]["name"] for p in cluster.items(f"{PODS}?labelSelector=app=one")] == [held]
        cluster.ok("PATCH", f"{PODS}/{held}", {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        cluster.run()
        pods = cluster.items(f"{PODS}?labelSelector=app=one")
        assert [p["spec"]["containers"][0]["image"] for p in pods] == ["app:2", "app:2"]

    def test_paused_changes_nothing_but_size(self, cluster: Lively) -> None:
        cluster.patch(f"{APPS}/deployments/web", {"spec": {"paused": True, "replicas": 2}})
        set_image(cluster, f"{APPS}/deployments/web", "app:2")
        cluster.run()
        assert images(cluster) == ["app:1"] * 2

    def test_stuck_rollout_exceeds_its_deadline(self, cluster: Lively) -> None:
        cluster.binds = False
        set_image(cluster, f"{APPS}/deployments/web", "app:2")
        cluster.run()
        assert condition(cluster.get(f"{APPS}/deployments/web"), "Progressing") == ("True", "ReplicaSetUpdated")
        cluster.run(602)
        deployment = cluster.get(f"{APPS}/deployments/web")
        assert condition(deployment, "Progressing") == ("False", "ProgressDeadlineExceeded")
        assert images(cluster).count("app:1") == 3

    def test_scaling_is_shared_out_in_a_rollout(self, cluster: Lively) -> None:
        cluster.binds = False
        set_image(cluster, f"{APPS}/deployments/web", "app:2")
        cluster.run()
        cluster.patch(f"{APPS}/deployments/web", {"spec": {"replicas": 8}})
        cluster.run()
        sizes = sorted(rs["spec"]["replicas"] for rs in cluster.items(f"{APPS}/replicasets"))
        assert sum(sizes) == 10 and sizes[0] > 1

    @pytest.mark.parametrize(
        ("policy", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 4)], ids=lambda value: str(value)
    )
    def test_deletion_reaches_the_pods(self, cluster: Lively, policy: str, left: int) -> None:
        cluster.ok("DELETE", f"{APPS}/deployments/web", {"propagationPolicy": policy})
        cluster.run()
        assert cluster.items(f"{APPS}/deployments") == []
        assert len(running(cluster)) == left
        orphans = cluster.items(f"{APPS}/replicasets")
        assert [rs["metadata"].get("ownerReferences") for rs in orphans] == [None] * bool(left)

    def test_orphans_are_adopted(self, cluster: Lively) -> None:
        before = running(cluster)
        cluster.ok("DELETE", f"{APPS}/deployments/web", {"propagationPolicy": "Orphan"})
        cluster.run()
        cluster.ok("POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=4))
        cluster.run()
        assert running(cluster) == before
        assert len(cluster.items(f"{APPS}/replicasets")) == 1

    def test_a_lost_pod_is_replaced(self, cluster: Lively) -> None:
        gone = running(cluster)[0]
        cluster.ok("DELETE", f"{PODS}/{gone}")
        cluster.run()
        assert len(running(cluster)) == 4 and gone not in running(cluster)


def test_min_ready_seconds_hold_back_availability(cluster: Lively) -> None:
    cluster.ok("POST", f"{APPS}/deployments", workload("Deployment", "slow", replicas=2, minReadySeconds=30))
    cluster.run()
    assert cluster.get(f"{APPS}/deployments/slow")["status"].get("availableReplicas") is None
    cluster.run(31)
    assert cluster.get(f"{APPS}/deployments/slow")["status"]["availableReplicas"] == 2


def test_replica_set_drops_the_least_missed(cluster: Lively) -> None:
    cluster.ok("POST", f"{APPS}/replicasets", workload("ReplicaSet", "rs", replicas=3))
    cluster.run()
    cheap = running(cluster)[1]
    cost = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    cluster.patch(f"{PODS}/{cheap}", {"metadata": {"annotations": cost}})
    cluster.patch(f"{APPS}/replicasets/rs", {"spec": {"replicas": 2}})
    cluster.run()
    assert len(running(cluster)) == 2 and cheap not in running(cluster)


def test_replication_controller(cluster: Lively) -> None:
    template = workload("ReplicaSet", "rc")["spec"]["template"]
    body = {"metadata": {"name": "rc"}, "spec": {"replicas": 2, "template": template}}
    cluster.ok("POST", "/api/v1/namespaces/default/replicationcontrollers", body)
    cluster.run()
    assert len(running(cluster)) == 2


def stateful(**spec: object) -> Json:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "demo-immediate",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return workload("StatefulSet", "db", serviceName="db", volumeClaimTemplates=[claim], **spec)


class TestStatefulSets:
    def test_in_order_with_claims(self, cluster: Lively) -> None:
        cluster.binds = False
        cluster.ok("POST", f"{APPS}/statefulsets", stateful(replicas=3))
        cluster.run()
        assert [p["metadata"]["name"] for p in cluster.items(PODS)] == ["db-0"]
        cluster.binds = True
        cluster.run()
        assert running(cluster) == ["db-0", "db-1", "db-2"]
        claims = cluster.items(CLAIMS)
        assert [(c["metadata"]["name"], c["status"]["phase"]) for c in claims] == [
            (f"data-db-{n}", "Bound") for n in range(3)
        ]
        status = cluster.get(f"{APPS}/statefulsets/db")["status"]
        assert status["readyReplicas"] == 3 and status["currentRevision"] == status["updateRevision"]

    def test_parallel_starts_all(self, cluster: Lively) -> None:
        cluster.binds = False
        cluster.ok("POST", f"{APPS}/statefulsets", stateful(replicas=3, podManagementPolicy="Parallel"))
        cluster.run()
        assert len(cluster.items(PODS)) == 3

    def test_update_stops_at_the_partition(self, cluster: Lively) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        cluster.ok("POST", f"{APPS}/statefulsets", stateful(replicas=3, updateStrategy=strategy))
        cluster.run()
        set_image(cluster, f"{APPS}/statefulsets/db", "app:2")
        cluster.run()
        assert images(cluster) == ["app:1", "app:2", "app:2"]
        cluster.ok("DELETE", f"{PODS}/db-0")
        cluster.run()
        assert images(cluster) == ["app:1", "app:2", "app:2"]
        cluster.patch(f"{APPS}/statefulsets/db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
        cluster.run()
        assert images(cluster) == ["app:2"] * 3
        revisions = cluster.items(f"{APPS}/controllerrevisions")
        assert sorted(r["revision"] for r in revisions) == [1, 2]

    @pytest.mark.parametrize(("policy", "left"), [("Retain", 3), ("Delete", 1)])
    def test_scale_down_from_the_end(self, cluster: Lively, policy: str, left: int) -> None:
        retention = {"whenScaled": policy}
        cluster.ok("POST", f"{APPS}/statefulsets", stateful(replicas=3, persistentVolumeClaimRetentionPolicy=retention))
        cluster.run()
        cluster.patch(f"{APPS}/statefulsets/db", {"spec": {"replicas": 1}})
        cluster.run()
        assert running(cluster) == ["db-0"]
        assert len(cluster.items(CLAIMS)) == left


class TestDaemonSets:
    @pytest.fixture(autouse=True)
    def created(self, cluster: Lively) -> None:
        cluster.ok("POST", f"{APPS}/daemonsets", workload("DaemonSet", "agent"))
        cluster.run()

    def on(self, cluster: Lively) -> list[str]:
        return sorted(p["spec"]["nodeName"] for p in cluster.items(PODS) if p["status"]["phase"] == "Running")

    def test_one_on_each_node(self, cluster: Lively) -> None:
        assert self.on(cluster) == ["n1", "n2", "n3"]
        status = cluster.get(f"{APPS}/daemonsets/agent")["status"]
        assert status["desiredNumberScheduled"] == status["numberReady"] == status["updatedNumberScheduled"] == 3

    def test_nodes_that_change(self, cluster: Lively) -> None:
        taint = {"key": "only", "value": "gpu", "effect": "NoExecute"}
        cluster.patch("/api/v1/nodes/n1", {"spec": {"taints": [taint]}})
        cluster.run()
        assert self.on(cluster) == ["n2", "n3"]
        cluster.patch("/api/v1/nodes/n1", {"spec": {"taints": None}})
        cluster.run()
        assert self.on(cluster) == ["n1", "n2", "n3"]
        cluster.patch("/api/v1/nodes/n2", {"spec": {"unschedulable": True}})
        cluster.run()
        assert self.on(cluster) == ["n1", "n2", "n3"], "a daemon tolerates a cordon"

    def test_rolling_update(self, cluster: Lively) -> None:
        set_image(cluster, f"{APPS}/daemonsets/agent", "app:2")
        cluster.run()
        assert images(cluster) == ["app:2"] * 3


def job(name: str, **spec: object) -> Json:
    pod = {"containers": [{"name": "c", "image": "app:1"}], "restartPolicy": "Never"}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": pod}, **spec}}


class TestJobs:
    PATH = "/apis/batch/v1/namespaces/default/jobs"

    def test_runs_to_completion(self, cluster: Lively) -> None:
        cluster.ok("POST", self.PATH, job("j", completions=3, parallelism=2))
        cluster.run()
        assert len(running(cluster)) == 2
        for _ in range(2):
            cluster.run(5)
        status = cluster.get(f"{self.PATH}/j")["status"]
        assert status["succeeded"] == 3 and "completionTime" in status
        assert [c["type"] for c in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert all(p["status"]["phase"] == "Succeeded" for p in cluster.items(PODS))

    def test_gives_up(self, cluster: Lively) -> None:
        cluster.ok("POST", self.PATH, job("j", backoffLimit=1))
        for _ in range(2):
            cluster.run()
            (name,) = running(cluster)
            cluster.patch(f"{PODS}/{name}/status", {"status": {"phase": "Failed"}})
        cluster.run()
        assert condition(cluster.get(f"{self.PATH}/j"), "Failed") == ("True", "BackoffLimitExceeded")
        assert running(cluster) == []

    def test_indexed(self, cluster: Lively) -> None:
        cluster.ok("POST", self.PATH, job("j", completions=3, parallelism=3, completionMode="Indexed"))
        cluster.run()
        label = "batch.kubernetes.io/job-completion-index"
        assert sorted(p["metadata"]["labels"][label] for p in cluster.items(PODS)) == ["0", "1", "2"]

    def test_deadline_and_time_to_live(self, cluster: Lively) -> None:
        cluster.binds = False
        cluster.ok("POST", self.PATH, job("j", activeDeadlineSeconds=60, ttlSecondsAfterFinished=100))
        cluster.run()
        cluster.run(61)
        assert condition(cluster.get(f"{self.PATH}/j"), "Failed") == ("True", "DeadlineExceeded")
        cluster.run(101)
        assert cluster.items(self.PATH) == []

    def test_suspended(self, cluster: Lively) -> None:
        cluster.ok("POST", self.PATH, job("j", suspend=True))
        cluster.run()
        assert cluster.items(PODS) == []
        cluster.patch(f"{self.PATH}/j", {"spec": {"suspend": False}})
        cluster.run()
        assert len(running(cluster)) == 1


class TestDisruptionBudgets:
    PATH = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"

    @pytest.mark.parametrize(
        ("rule", "desired", "allowed"),
        [
            pytest.param({"minAvailable": 3}, 3, 1, id="number"),
            pytest.param({"minAvailable": "60%"}, 3, 1, id="share rounds up"),
            pytest.param({"maxUnavailable": 2}, 2, 2, id="maxUnavailable"),
            pytest.param({"maxUnavailable": "30%"}, 2, 2, id="maxUnavailable share rounds up"),
            pytest.param({"minAvailable": 9}, 9, 0, id="never"),
        ],
    )
    def test_status(self, cluster: Lively, rule: Json, desired: int, allowed: int) -> None:
        cluster.ok("POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=4))
        cluster.ok("POST", self.PATH, {"metadata": {"name": "b"}, "spec": {"selector": {}, **rule}})
        cluster.run()
        budget = cluster.get(f"{self.PATH}/b")
        status = budget["status"]
        assert (status["expectedPods"], status["currentHealthy"]) == (4, 4)
        assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (desired, allowed)
        reason = "SufficientPods" if allowed else "InsufficientPods"
        assert condition(budget, "DisruptionAllowed") == ("True" if allowed else "False", reason)

    def test_evictions_wait_for_replacements(self, cluster: Lively) -> None:
        cluster.ok("POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=2))
        selector = {"matchLabels": {"app": "web"}}
        cluster.ok("POST", self.PATH, {"metadata": {"name": "b"}, "spec": {"selector": selector, "minAvailable": 1}})
        cluster.run()
        first, second = running(cluster)

        def evict(name: str) -> int:
            return cluster.ask("POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name}})[0]

        cluster.binds = False
        assert evict(first) == 201
        assert evict(second) == 429
        cluster.run()
        assert evict(second) == 429
        cluster.binds = True
        cluster.run()
        assert evict(second) == 201


class TestNodes:
    @pytest.mark.parametrize(
        ("conditions", "taints"),
        [
            pytest.param({"Ready": "True"}, [], id="ready"),
            pytest.param({"Ready": "False"}, ["not-ready:NoSchedule", "not-ready:NoExecute"], id="not ready"),
            pytest.param({"Ready": "Unknown"}, ["unreachable:NoSchedule", "unreachable:NoExecute"], id="unknown"),
            pytest.param({"Ready": "True", "DiskPressure": "True"}, ["disk-pressure:NoSchedule"], id="pressure"),
        ],
    )
    def test_taints_by_condition(self, cluster: Lively, conditions: dict[str, str], taints: list[str]) -> None:
        cluster.run()
        body = [{"type": type_, "status": status} for type_, status in conditions.items()]
        cluster.patch("/api/v1/nodes/n1/status", {"status": {"conditions": body}})
        cluster.run()
        found = cluster.get("/api/v1/nodes/n1")["spec"].get("taints", [])
        assert [f"{t['key'].removeprefix('node.kubernetes.io/')}:{t['effect']}" for t in found] == taints

    def test_cordon_is_a_taint(self, cluster: Lively) -> None:
        for unschedulable, keys in ((True, ["node.kubernetes.io/unschedulable"]), (None, [])):
            cluster.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": unschedulable}})
            cluster.run()
            assert [t["key"] for t in cluster.get("/api/v1/nodes/n1")["spec"].get("taints", [])] == keys

    def test_leases_are_renewed(self, cluster: Lively) -> None:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        cluster.run()
        before = [lease["spec"]["renewTime"] for lease in cluster.items(path)]
        cluster.run(11)
        after = [lease["spec"]["renewTime"] for lease in cluster.items(path)]
        assert len(before) == 3 and all(later > earlier for later, earlier in zip(after, before, strict=True))

    def test_silent_node_is_unknown_and_loses_its_pods(self) -> None:
        names = [name for name in CONTROLLERS if name != "node-lease"]
        cluster = Lively(controllers=names, nodes=1)
        stale = {"holderIdentity": "n1", "renewTime": "2025-12-31T23:59:00.000000Z"}
        lease = {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": stale}
        cluster.ok("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease)
        cluster.ok("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        cluster.run()
        assert condition(cluster.get("/api/v1/nodes/n1"), "Ready")[0] == "True"
        cluster.run(51)
        assert condition(cluster.get("/api/v1/nodes/n1"), "Ready") == ("Unknown", "NodeStatusUnknown")
        assert running(cluster) == ["p"]
        cluster.run(301)
        assert running(cluster) == [], "five minutes are what every pod tolerates"

    def test_pods_of_a_deleted_node_go(self, cluster: Lively) -> None:
        cluster.ok("POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=3))
        cluster.run()
        cluster.ok("DELETE", "/api/v1/nodes/n1")
        cluster.run()
        assert len(running(cluster)) == 3
        cluster.run(41)
        pods = cluster.items(PODS)
        assert len(pods) == 3 and all(p["spec"]["nodeName"] != "n1" for p in pods)


def claim(name: str, storage_class: str, **spec: object) -> Json:
    wants = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    return {"metadata": {"name": name}, "spec": {"storageClassName": storage_class, **wants, **spec}}


def volume(name: str, storage_class: str, size: str = "10Gi", **spec: object) -> Json:
    has = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/x"}}
    return {"metadata": {"name": name}, "spec": {"storageClassName": storage_class, **has, **spec}}


class TestVolumes:
    VOLUMES = "/api/v1/persistentvolumes"

    @pytest.fixture(autouse=True)
    def classes(self, cluster: Lively) -> None:
        for name, mode in (("local", "WaitForFirstConsumer"), ("fixed", "Immediate")):
            body = {
                "metadata": {"name": name},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": mode,
            }
            cluster.ok("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
        cluster.run()

    def test_smallest_that_fits(self, cluster: Lively) -> None:
        for name, size in (("big", "50Gi"), ("right", "6Gi"), ("small", "1Gi")):
            cluster.ok("POST", self.VOLUMES, volume(name, "fixed", size))
        cluster.run()
        assert [v["status"]["phase"] for v in cluster.items(self.VOLUMES)] == ["Available"] * 3
        cluster.ok("POST", CLAIMS, claim("c", "fixed"))
        cluster.run()
        bound, chosen_one = cluster.get(f"{CLAIMS}/c"), cluster.get(f"{self.VOLUMES}/right")
        assert bound["spec"]["volumeName"] == "right"
        assert bound["status"] == {
            "phase": "Bound",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "6Gi"},
        }
        assert bound["metadata"]["annotations"] == {
            "pv.kubernetes.io/bind-completed": "yes",
            "pv.kubernetes.io/bound-by-controller": "yes",
        }
        assert chosen_one["status"]["phase"] == "Bound"
        assert chosen_one["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]

    def test_claim_waits_for_a_volume(self, cluster: Lively) -> None:
        cluster.ok("POST", CLAIMS, claim("c", "fixed"))
        cluster.run()
        assert cluster.get(f"{CLAIMS}/c")["status"] == {"phase": "Pending"}
        cluster.ok("POST", self.VOLUMES, volume("v", "fixed"))
        cluster.run()
        assert cluster.get(f"{CLAIMS}/c")["status"]["phase"] == "Bound"

    def test_first_consumer_is_waited_for(self, cluster: Lively) -> None:
        cluster.ok("POST", self.VOLUMES, volume("v", "local"))
        made = cluster.ok("POST", CLAIMS, claim("c", "local"))
        cluster.run()
        assert cluster.get(f"{CLAIMS}/c")["status"] == {"phase": "Pending"}
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": "default",
            "name": "c",
            "uid": made["metadata"]["uid"],
        }
        cluster.patch(f"{self.VOLUMES}/v", {"spec": {"claimRef": reference}})
        cluster.run()
        bound = cluster.get(f"{CLAIMS}/c")
        assert (bound["spec"]["volumeName"], bound["status"]["phase"]) == ("v", "Bound")

    def test_provisioned_where_the_pod_goes(self, cluster: Lively) -> None:
        cluster.ok("POST", CLAIMS, claim("c", "demo"))
        cluster.run()
        assert cluster.items(self.VOLUMES) == []
        selected = {"volume.kubernetes.io/selected-node": "n2"}
        cluster.patch(f"{CLAIMS}/c", {"metadata": {"annotations": selected}})
        cluster.run()
        (made,) = cluster.items(self.VOLUMES)
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == ["z2"]
        assert made["metadata"]["annotations"] == {"pv.kubernetes.io/provisioned-by": "kubesched.io/demo"}
        assert cluster.get(f"{CLAIMS}/c")["spec"]["volumeName"] == made["metadata"]["name"]

    def test_free_volumes_are_not_given_to_a_claim_the_scheduler_chooses_for(self, cluster: Lively) -> None:
        cluster.ok("POST", self.VOLUMES, volume("elsewhere", "demo"))
        cluster.ok("POST", CLAIMS, claim("c", "demo"))
        selected = {"volume.kubernetes.io/selected-node": "n2"}
        cluster.patch(f"{CLAIMS}/c", {"metadata": {"annotations": selected}})
        cluster.run()
        assert cluster.get(f"{CLAIMS}/c")["spec"]["volumeName"].startswith("pvc-")
        assert cluster.get(f"{self.VOLUMES}/elsewhere")["status"]["phase"] == "Available"

    def test_in_use_outlives_its_deletion(self, cluster: Lively) -> None:
        cluster.ok("POST", CLAIMS, claim("c", "demo-immediate"))
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        }
        cluster.ok("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
        cluster.run()
        cluster.ok("DELETE", f"{CLAIMS}/c")
        cluster.run()
        assert len(cluster.items(CLAIMS)) == 1
        cluster.ok("DELETE", f"{PODS}/p")
        cluster.run()
        assert cluster.items(CLAIMS) == []
        assert cluster.items(self.VOLUMES) == [], "what was provisioned is reclaimed"

    def test_retained_volume_is_released_and_lost_claim_is_told(self, cluster: Lively) -> None:
        for name in ("a", "b"):
            cluster.ok("POST", self.VOLUMES, volume(f"v{name}", "fixed"))
            cluster.ok("POST", CLAIMS, claim(name, "fixed"))
            cluster.run()
        cluster.ok("DELETE", f"{CLAIMS}/a")
        cluster.run()
        assert cluster.get(f"{self.VOLUMES}/va")["status"]["phase"] == "Released"
        cluster.ok("DELETE", f"{self.VOLUMES}/vb", {"gracePeriodSeconds": 0})
        finalizers = {"metadata": {"finalizers": None}}
        cluster.ok("PATCH", f"{self.VOLUMES}/vb", finalizers, "application/merge-patch+json")
        cluster.run()
        assert cluster.get(f"{CLAIMS}/b")["status"] == {"phase": "Lost"}


class TestGarbage:
    def test_shared_dependents_stay(self, cluster: Lively) -> None:
        maps = "/api/v1/namespaces/default/configmaps"
        owners = [cluster.ok("POST", maps, {"metadata": {"name": name}}) for name in ("one", "two")]
        references = [
            {"kind": "ConfigMap", "apiVersion": "v1", "name": o["metadata"]["name"], "uid": o["metadata"]["uid"]}
            for o in owners
        ]
        cluster.ok("POST", maps, {"metadata": {"name": "both", "ownerReferences": references}})
        cluster.ok("DELETE", f"{maps}/one")
        cluster.run()
        assert cluster.get(f"{maps}/both")["metadata"]["ownerReferences"] == references[1:]
        cluster.ok("DELETE", f"{maps}/two")
        cluster.run()
        assert cluster.ask("GET", f"{maps}/both")[0] == 404

    def test_loaded_dependents_of_unknown_owners_stay(self, cluster: Lively) -> None:
        reference = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "x", "uid": "u", "controller": True}
        pod = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": "p", "namespace": "default", "ownerReferences": [reference]},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        }
        cluster.server.load([pod])
        cluster.run(60)
        assert running(cluster) == ["p"]


def test_namespaces_have_accounts_and_certificates(cluster: Lively) -> None:
    cluster.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    cluster.run()
    for kind, name in (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")):
        path = f"/api/v1/namespaces/team/{kind}/{name}"
        cluster.ok("DELETE", path)
        cluster.run()
        cluster.get(path)
    cluster.ok("DELETE", "/api/v1/namespaces/team")
    cluster.run()
    assert cluster.ask("GET", "/api/v1/namespaces/team")[0] == 404


@pytest.mark.parametrize(
    ("words", "on", "off"),
    [
        pytest.param(["*"], "job-controller", "nothing", id="all"),
        pytest.param(["*", "-job-controller"], "node-lease", "job-controller", id="all but one"),
        pytest.param(["job-controller"], "job-controller", "node-lease", id="one"),
    ],
)
def test_choice(words: list[str], on: str, off: str) -> None:
    names = chosen(words)
    assert on in names and off not in names


def test_unknown_controllers_are_refused() -> None:
    with pytest.raises(ValueError, match='"nope" is not a known controller'):
        chosen(["nope"])


def test_without_controllers_nothing_moves() -> None:
    cluster = Lively(controllers=())
    cluster.ok("POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=4))
    cluster.run()
    assert cluster.items(PODS) == [] and cluster.get(f"{APPS}/deployments/web")["status"] == {}
