"""Defaults, dropped fields and recorded values of strategies."""

from __future__ import annotations

from typing import Any

import pytest

from envtest.groups.common.pod_spec import drop_disabled
from envtest.groups.core.pod_requests import requested
from opsdk.apiserver.registry.context import Context
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, read, row_of, wrong
from tests.envtest.groups.trees import known

PENDING: JsonObject = {"phase": "Pending", "lastPhaseTransitionTime": "x"}


# ------------------------------------------------------------------ volumes
@pytest.mark.parametrize(
    ("old", "new", "since"),
    [
        (PENDING, {"phase": "Pending"}, "x"),
        (PENDING, {"phase": "Bound"}, "now"),
        (PENDING, {"phase": "Bound", "lastPhaseTransitionTime": "x"}, "now"),
        (PENDING, {"phase": "Bound", "lastPhaseTransitionTime": "y"}, "y"),
    ],
)  # fmt: skip
def test_volumes_remember_when_their_phase_began(old: JsonObject, new: JsonObject, since: str) -> None:
    """A volume records when its phase began; clients may set this time."""
    strategy: Any = known().strategy(row_of("/persistentvolumes"), has_status=True)
    context = Context()
    obj: JsonObject = {"status": dict(new)}
    strategy.prepare_status(context, obj, {"status": old})
    result = obj["status"]["lastPhaseTransitionTime"]
    assert result == (context.timestamp() if since == "now" else since)


def test_new_volumes_are_pending_since_now() -> None:
    """A new persistent volume is Pending since now, whatever status the request has."""
    strategy = known().strategy(row_of("/persistentvolumes"), has_status=True)
    context = Context()
    obj = read("/persistentvolumes", {"status": {"phase": "Bound"}})
    strategy.prepare_for_create(context, obj)
    assert obj["status"] == {"phase": "Pending", "lastPhaseTransitionTime": context.timestamp()}


# ------------------------------------------------------------------ features that are off
def test_disabled_fields_are_dropped_unless_in_use() -> None:
    """Fields of disabled feature gates are dropped unless the old object uses them."""

    def spec() -> JsonObject:
        source = {"podCertificate": {"signerName": "a/b"}}
        return {
            "schedulingGroup": {"x": 1},
            "volumes": [{"name": "v", "projected": {"sources": [source]}}],
            "containers": [{"lifecycle": {"stopSignal": "SIGHUP"}}, {"lifecycle": {}}],
            "initContainers": [{"lifecycle": {"stopSignal": "SIGHUP", "preStop": {}}}],
        }

    new, again = spec(), spec()
    drop_disabled(new)
    assert new == {
        "volumes": [{"name": "v", "projected": {"sources": [{}]}}],
        "containers": [{}, {"lifecycle": {}}],
        "initContainers": [{"lifecycle": {"preStop": {}}}],
    }
    drop_disabled(again, spec())
    assert again == spec()


# ------------------------------------------------------------------ pods as a whole
def test_pod_requests_include_init_containers() -> None:
    """A pod's request is the larger of its init containers and of the sum of its containers and sidecars."""

    def container(amount: str, **more: str) -> JsonObject:
        return {"resources": {"requests": {"cpu": amount}}, **more}

    spec = {"containers": [container("500m"), container("1")], "initContainers": [container("3")]}
    assert str(requested(spec, "cpu")) == "3"
    spec["initContainers"] = [container("1", restartPolicy="Always"), container("1")]
    assert str(requested(spec, "cpu")) == "2500m"
    assert not requested(spec, "memory").value


def test_pod_level_requests_default_to_containers_and_limits() -> None:
    """Missing pod-level requests come from the containers, or else from the pod-level limits."""
    asking = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    whole = {"limits": {"cpu": "2", "memory": "1Gi"}}
    pod = read("/pods", {"spec": {"containers": [asking], "resources": whole}})
    assert pod["spec"]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


# ------------------------------------------------------------------ defaults
def test_ports_in_the_network_of_a_node() -> None:
    """With hostNetwork, host ports equal container ports; a template may omit them."""
    spec: JsonObject = {
        "hostNetwork": True,
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}],
    }
    assert read("/pods", {"spec": spec})["spec"]["containers"][0]["ports"][0]["hostPort"] == 80
    template = read("/podtemplates", {"template": {"spec": spec}})["template"]
    assert "hostPort" not in template["spec"]["containers"][0]["ports"][0]
    assert not wrong("/podtemplates", {"template": {"spec": spec}})
    other = changed(spec, "containers.0.ports", [{"containerPort": 80, "hostPort": 81}])
    text = "containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"
    assert wrong("/podtemplates", {"template": {"spec": other}}) == [f"template.spec.{text}"]
    assert wrong("/pods", {"spec": other}) == [f"spec.{text}"]


def test_stateful_sets_default_to_partition_zero() -> None:
    """A StatefulSet without update strategy gets RollingUpdate with partition 0; a given type gets no partition."""
    rolling = {"type": "RollingUpdate"}
    whole = {**rolling, "rollingUpdate": {"partition": 0}}
    assert read("apps/statefulsets", {"spec": {}})["spec"]["updateStrategy"] == whole
    assert read("apps/statefulsets", {"spec": {"updateStrategy": rolling}})["spec"]["updateStrategy"] == rolling


def test_jobs_with_an_index_limit_have_an_unlimited_backoff() -> None:
    """With backoffLimitPerIndex, backoffLimit is the largest integer; condition statuses default to True."""
    rule: JsonObject = {"action": "Ignore", "onPodConditions": [{"type": "T"}]}
    job = read("batch/jobs", {"spec": {"backoffLimitPerIndex": 1, "template": {}}})
    assert job["spec"]["backoffLimit"] == 2147483647
    spec = {"podFailurePolicy": {"rules": [rule]}, "template": {}}
    cron = read("batch/cronjobs", {"spec": {"jobTemplate": {"spec": spec}}})
    [result] = cron["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    assert result["onPodConditions"] == [{"type": "T", "status": "True"}]
