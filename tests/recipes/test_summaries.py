"""Summaries: the state of each kind, from its status."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk import ObjectMeta, Unstructured
from opsdk.api.apps.v1 import Deployment
from opsdk.recipes.summaries import SummaryState, summary


def of(api_version: str, kind: str, spec: Any = None, status: Any = None, **metadata: Any) -> str:
    """The summary of an object as text."""
    tree = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", **metadata}}
    if spec is not None:
        tree["spec"] = spec
    if status is not None:
        tree["status"] = status
    return str(summary(Unstructured.from_tree(tree)))


def conditions(**statuses: str) -> dict[str, Any]:
    """A status with conditions; a value is ``status/reason``."""
    pairs = {kind: text.partition("/") for kind, text in statuses.items()}
    return {
        "conditions": [{"type": kind, "status": s, "reason": r, "message": ""} for kind, (s, _, r) in pairs.items()]
    }


DEPLOYED = {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}
SET = {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "currentRevision": "a", "updateRevision": "a"}
DAEMONS = {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberAvailable": 2, "numberReady": 2}


def test_a_progressing_deployment_is_transitioning() -> None:
    """Wrangler summary: a Deployment whose replicas are not available yet is transitioning, and no error."""
    deployment = Deployment(metadata=ObjectMeta(name="a", generation=1))
    deployment.spec.replicas = 3
    deployment.status.observed_generation = 1
    deployment.status.replicas = deployment.status.updated_replicas = 3
    result = summary(deployment)
    assert (result.transitioning, result.error) == (True, False)
    assert result.message == "0 of 3 replicas are available"
    deployment.status.available_replicas = 3
    assert summary(deployment).state is SummaryState.CURRENT


@pytest.mark.parametrize(
    ("spec", "status", "text"),
    [
        ({"replicas": 3}, DEPLOYED, "current"),
        ({}, {}, "in progress: the controller has not observed it yet"),
        ({"replicas": 4}, DEPLOYED, "in progress: 3 of 4 replicas are updated"),
        ({"replicas": 3}, {**DEPLOYED, "replicas": 5}, "in progress: 2 old replicas are pending termination"),
        ({"replicas": 0}, {"observedGeneration": 1}, "current"),
        (
            {"replicas": 4},
            DEPLOYED | conditions(Progressing="False/ProgressDeadlineExceeded"),
            "failed: the progress deadline is exceeded",
        ),
        ({"replicas": 4}, DEPLOYED | conditions(ReplicaFailure="True"), "failed: replicas cannot be created"),
    ],
)
def test_deployments_follow_the_rules_of_kstatus(spec: Any, status: Any, text: str) -> None:
    """The summary of a Deployment follows the rules of kstatus."""
    assert of("apps/v1", "Deployment", spec, status, generation=1) == text


@pytest.mark.parametrize(
    ("kind", "spec", "status", "text"),
    [
        ("StatefulSet", {"replicas": 3}, SET, "current"),
        ("StatefulSet", {"replicas": 4}, SET, "in progress: 3 of 4 replicas are ready"),
        ("StatefulSet", {"replicas": 2}, SET, "in progress: 1 replicas are pending termination"),
        (
            "StatefulSet",
            {"replicas": 3},
            {**SET, "updateRevision": "b", "updatedReplicas": 1},
            "in progress: 1 of 3 replicas are updated",
        ),
        (
            "StatefulSet",
            {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
            {**SET, "updateRevision": "b", "updatedReplicas": 1},
            "current",
        ),
        ("StatefulSet", {"replicas": 9, "updateStrategy": {"type": "OnDelete"}}, SET, "current"),
        ("DaemonSet", {}, {**DAEMONS, "updatedNumberScheduled": 2}, "current"),
        ("DaemonSet", {}, {**DAEMONS, "updatedNumberScheduled": 1}, "in progress: 1 of 2 pods are updated"),
        ("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}, DAEMONS, "current"),
        ("DaemonSet", {}, {}, "in progress: the controller has not observed it yet"),
        ("ReplicaSet", {}, {}, "in progress: 0 of 1 replicas are available"),
        ("ReplicaSet", {}, conditions(ReplicaFailure="True"), "failed: replicas cannot be created"),
        ("ReplicaSet", {"replicas": 0}, {"replicas": 1}, "in progress: 1 replicas are pending termination"),
    ],
)
def test_other_workloads(kind: str, spec: Any, status: Any, text: str) -> None:
    """The rules of kstatus for StatefulSets, DaemonSets and ReplicaSets."""
    assert of("apps/v1", kind, spec, status, generation=1) == text


def container(reason: str) -> dict[str, Any]:
    """A status with a waiting container."""
    return {"phase": "Pending", "containerStatuses": [{"name": "web", "state": {"waiting": {"reason": reason}}}]}


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "status", "text"),
    [
        ("batch/v1", "Job", {}, {}, "in progress: the job has not started"),
        ("batch/v1", "Job", {}, {"startTime": "t", "active": 1}, "in progress: 0 of 1 completions, 1 active"),
        ("batch/v1", "Job", {}, conditions(Complete="True"), "current"),
        ("batch/v1", "Job", {}, conditions(Failed="True"), "failed: the job failed"),
        ("batch/v1", "Job", {"suspend": True}, {}, "current"),
        ("v1", "Pod", {}, {"phase": "Succeeded"}, "current"),
        ("v1", "Pod", {}, {"phase": "Failed", "reason": "Evicted"}, "failed: Evicted"),
        ("v1", "Pod", {}, container("CrashLoopBackOff"), "failed: container web: CrashLoopBackOff"),
        ("v1", "Pod", {}, container("ContainerCreating"), "in progress: the pod is pending"),
        ("v1", "Pod", {}, conditions(PodScheduled="False/Unschedulable"), "failed: the pod is unschedulable"),
        ("v1", "Pod", {}, {"phase": "Running", **conditions(Ready="True")}, "current"),
        ("v1", "Pod", {}, None, "in progress: the pod is pending"),
        ("v1", "Service", {"type": "ClusterIP"}, {}, "current"),
        ("v1", "Service", {"type": "LoadBalancer"}, {}, "in progress: the load balancer has no address"),
        ("v1", "Service", {"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"ip": "1"}]}}, "current"),
        ("v1", "PersistentVolumeClaim", {}, {}, "in progress: the claim is pending"),
        ("v1", "PersistentVolumeClaim", {}, {"phase": "Bound"}, "current"),
        ("v1", "PersistentVolumeClaim", {}, {"phase": "Lost"}, "failed: the volume of the claim is lost"),
        ("policy/v1", "PodDisruptionBudget", {}, {"currentHealthy": 1, "desiredHealthy": 1}, "current"),
        ("policy/v1", "PodDisruptionBudget", {}, {"desiredHealthy": 1}, "in progress: 0 of 1 pods are healthy"),
        ("v1", "ConfigMap", None, None, "current"),
    ],
)
def test_other_built_in_kinds(api_version: str, kind: str, spec: Any, status: Any, text: str) -> None:
    """The rules of kstatus for Jobs, Pods, Services, claims and budgets; kinds without a status are current."""
    assert of(api_version, kind, spec, status) == text


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({}, "in progress: the definition is not established"),
        (conditions(NamesAccepted="True", Established="True"), "current"),
        (conditions(NamesAccepted="False/Conflict"), "failed: NamesAccepted is False"),
        (conditions(Established="False/Installing"), "in progress: the definition is not established"),
        (conditions(Established="False/NotAccepted"), "failed: Established is False"),
    ],
)
def test_crds_follow_the_rules_of_kstatus(status: Any, text: str) -> None:
    """The summary of a CustomResourceDefinition follows the rules of kstatus."""
    assert of("apiextensions.k8s.io/v1", "CustomResourceDefinition", {}, status) == text


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (None, "current"),
        (conditions(Ready="True"), "current"),
        (conditions(Ready="False/Waiting"), "in progress: Waiting"),
        (conditions(Ready="Unknown"), "in progress: Ready"),
        (conditions(Ready="False/Error"), "failed: Error"),
        (conditions(Ready="True", Stalled="True/Quota"), "failed: Quota"),
        (conditions(Ready="True", Reconciling="True/Rollout"), "in progress: Rollout"),
        (conditions(Available="False/Waiting"), "in progress: Waiting"),
        (conditions(Other="False"), "current"),
        ({"observedGeneration": 1}, "in progress: generation 2 is not observed yet, only 1"),
        (
            {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]},
            "in progress: condition Ready is of generation 1, not 2",
        ),
    ],
)
def test_custom_resources(status: Any, text: str) -> None:
    """Conditions decide: an error beats progress, progress beats readiness, an old generation is progress."""
    assert of("demo.dev/v1", "Site", {}, status, generation=2) == text


def test_a_deletion_comes_first() -> None:
    """A terminating object is terminating whatever its status says, and its finalizers are named."""
    text = of("v1", "Pod", {}, {"phase": "Failed"}, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])
    assert text == "terminating: waits for finalizers a/b"
    assert of("v1", "Pod", deletionTimestamp="2026-01-01T00:00:00Z") == "terminating: is being deleted"


KINDS = [
    ("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"), ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"), ("v1", "Pod"), ("v1", "Service"), ("v1", "PersistentVolumeClaim"),
    ("policy/v1", "PodDisruptionBudget"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ("a.b/v1", "Any"),
]  # fmt: skip
junk = st.none() | st.text("ab", max_size=3) | st.lists(st.none() | st.text("ab", max_size=2), max_size=2)


@given(st.sampled_from(KINDS), junk | st.dictionaries(st.just("conditions"), junk), junk)
def test_broken_statuses_have_a_summary(kind: tuple[str, str], status: Any, spec: Any) -> None:
    """Bad input: a status or conditions of another type are read as missing."""
    assert of(*kind, spec, status)
