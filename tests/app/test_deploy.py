"""The manifests in deploy/ parse, fit together, and name what exists: flags, ports, metrics, accounts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from kubesched import config
from kubesched.app.flags import check
from kubesched.cli.flag_parsing import parse
from kubesched.metrics import Metrics

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SECOND, STATIC, MONITORING = DEPLOY / "second-scheduler", DEPLOY / "static-pod", DEPLOY / "monitoring"
MANIFESTS = sorted(path for path in DEPLOY.rglob("*.yaml"))
#: Metrics that Prometheus and the process itself add.
ADDED = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}


def documents(path):
    return [doc for doc in yaml.safe_load_all(path.read_text()) if doc]


def by_kind(kind, folder=SECOND):
    (found,) = [doc for path in sorted(folder.glob("*.yaml")) for doc in documents(path) if doc["kind"] == kind]
    return found


def containers():
    return {
        "deployment": by_kind("Deployment")["spec"]["template"]["spec"],
        "static pod": by_kind("Pod", STATIC)["spec"],
    }


def arguments(container):
    words = [*container.get("command", []), *container.get("args", [])]
    return [word for word in words if word.startswith("-")]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_document_is_an_object(path):
    found = documents(path)
    assert found
    for document in found:
        assert document["apiVersion"] and document["kind"]
        assert document["kind"] == "Kustomization" or document["metadata"]["name"]


def test_the_kustomization_names_every_file():
    named = set(by_kind("Kustomization")["resources"])
    assert named == {path.name for path in SECOND.glob("*.yaml")} - {"kustomization.yaml"}


@pytest.mark.parametrize("name", ["deployment", "static pod"])
def test_flags_exist_and_go_together(name):
    (container,) = containers()[name]["containers"]
    flags = parse(arguments(container))
    check(flags)
    assert flags.secure_port == container["ports"][0]["containerPort"] == 10259


@pytest.mark.parametrize("name", ["deployment", "static pod"])
def test_probes_ask_the_secure_port(name):
    (container,) = containers()[name]["containers"]
    port = container["ports"][0]["name"]
    paths = {}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert (asked["port"], asked["scheme"]) == (port, "HTTPS")
        paths[probe] = asked["path"]
    assert paths == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}


@pytest.mark.parametrize("name", ["deployment", "static pod"])
def test_containers_are_confined(name):
    (container,) = containers()[name]["containers"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] is True and security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}, "TLS keys need a place for a moment"
    volumes = {volume["name"] for volume in containers()[name]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_the_second_scheduler_is_made_of_one_piece():
    deployment, template = by_kind("Deployment"), containers()["deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["replicas"] == 2
    assert template["securityContext"]["runAsNonRoot"] is True and template["securityContext"]["runAsUser"] > 0
    assert template["serviceAccountName"] == by_kind("ServiceAccount")["metadata"]["name"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for kind in ("PodDisruptionBudget",):
        assert by_kind(kind)["spec"]["selector"]["matchLabels"].items() <= labels.items()
    service = by_kind("Service")
    assert service["spec"]["selector"].items() <= labels.items()
    monitor = by_kind("ServiceMonitor", MONITORING)
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {each["port"] for each in monitor["spec"]["endpoints"]} == {service["spec"]["ports"][0]["name"]}
    (mounted,) = [volume["configMap"]["name"] for volume in template["volumes"] if "configMap" in volume]
    assert mounted == by_kind("ConfigMap")["metadata"]["name"]


def test_the_configuration_is_that_of_a_second_scheduler(caplog):
    loaded = config.load(by_kind("ConfigMap")["data"]["config.yaml"])
    assert caplog.records == [], "a start would warn"
    assert [profile.scheduler_name for profile in loaded.profiles] == ["kubesched"]
    assert loaded.leader_election.leader_elect and loaded.leader_election.resource_name == "kubesched"
    rules = [rule for doc in documents(SECOND / "rbac.yaml") if doc["kind"] == "Role" for rule in doc["rules"]]
    named = [rule["resourceNames"] for rule in rules if "leases" in rule["resources"] and "resourceNames" in rule]
    assert named == [[loaded.leader_election.resource_name]]


def test_prometheus_may_ask_for_what_it_scrapes():
    role = by_kind("ClusterRole", MONITORING)
    allowed = {path for rule in role["rules"] for path in rule["nonResourceURLs"]}
    scraped = {each["path"] for each in by_kind("ServiceMonitor", MONITORING)["spec"]["endpoints"]}
    assert scraped == allowed


def known_metrics():
    names = set(ADDED)
    for family in Metrics().families:
        names.add(family.name)
        if family.kind == "histogram":
            names.update(family.name + suffix for suffix in ("_bucket", "_sum", "_count"))
    return names


def metrics_in(expression):
    without_labels = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\bby \([^)]*\)", "", expression)
    words = set(re.findall(r"\b[a-z_]+\b(?!\s*\()", without_labels))
    return words - {"by", "le", "and", "or", "unless"}


@pytest.mark.parametrize("rule", by_kind("PrometheusRule", MONITORING)["spec"]["groups"][0]["rules"],
                         ids=lambda rule: rule["alert"])  # fmt: skip
def test_alerts_ask_for_metrics_that_exist(rule):
    asked = metrics_in(rule["expr"])
    assert asked and asked <= known_metrics()
    assert rule["labels"]["severity"] in ("critical", "warning") and rule["annotations"]["summary"].endswith(".")


def test_the_dashboard_asks_for_metrics_that_exist():
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) >= 10
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    for panel in panels:
        for target in panel["targets"]:
            asked = metrics_in(target["expr"])
            assert asked and asked <= known_metrics(), panel["title"]


def test_the_image_runs_without_root_and_from_a_virtual_environment():
    text = (DEPLOY / "Containerfile").read_text()
    assert re.search(r"^USER 65532:65532$", text, re.M)
    assert re.search(r'^ENTRYPOINT \["kubesched"\]$', text, re.M)
    assert len(re.findall(r"^FROM \S+-slim", text, re.M)) == 2
    copied = re.findall(r"^COPY ([^-].*) \S+$", text, re.M)
    root = DEPLOY.parent
    assert all((root / name).exists() for names in copied for name in names.split())


def test_the_image_is_compiled_and_has_no_compiler():
    build, run = (DEPLOY / "Containerfile").read_text().split("\nFROM ")[1:]
    assert "gcc" in build and "hatch_build.py" in build and "grep build=compiled" in build
    assert "gcc" not in run and "apt-get" not in run
