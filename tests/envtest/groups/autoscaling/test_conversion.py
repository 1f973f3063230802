"""Autoscalers: validation, and the two versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_caller import Answer, Caller

from envtest.environment import Environment
from envtest.groups.autoscaling.conversion import to_new, to_old
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, wrong

AUTOSCALERS = "autoscaling/horizontalpodautoscalers"
URL = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
NOTE = "autoscaling.alpha.kubernetes.io/"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
GOOD = {"spec": {"maxReplicas": 3, "scaleTargetRef": TARGET}}
NAMED = {"name": "m"}
BOTH = "may not set both a target value for metric and a per-pod target"
SELECTORS = st.one_of(st.none(), st.just({"matchLabels": {"a": "b"}}))
AMOUNTS = st.sampled_from(["1", "100m", "3Gi"])


def metric(kind: str, **parts: Any) -> JsonObject:
    """A metric with a target of one amount."""
    return {"type": kind, kind[:1].lower() + kind[1:]: parts}


@st.composite
def metrics(draw: st.DrawFn) -> JsonObject:
    """A metric of any kind but the utilization of the CPU."""
    kind = draw(st.sampled_from(["Object", "Pods", "Resource", "ContainerResource", "External"]))
    amount, selector = draw(AMOUNTS), draw(SELECTORS)
    name = {"name": draw(st.sampled_from(["qps", "memory"]))}
    average = {"type": "AverageValue", "averageValue": amount}
    if kind in ("Resource", "ContainerResource"):
        utilized = {"type": "Utilization", "averageUtilization": 5}
        inside = {"container": "c"} if kind == "ContainerResource" else {}
        return metric(kind, **name, target=draw(st.sampled_from([average, utilized])), **inside)
    result = name | ({"selector": selector} if selector else {})
    if kind == "Object":
        about = {"kind": "Service", "name": "s", "apiVersion": "v1"}
        return metric(kind, describedObject=about, metric=result, target={"type": "Value", "value": amount})
    target = {"type": "Value", "value": amount} if kind == "External" and draw(st.booleans()) else average
    return metric(kind, metric=result, target=target)


@given(st.lists(metrics()), st.one_of(st.none(), st.integers(1, 99)), st.booleans())
def test_v1_round_trips_through_annotations(found: list[Any], share: int | None, behave: bool) -> None:
    """Fields that v1 lacks survive in annotations; the CPU utilization becomes the last metric."""
    expected = {"type": "Utilization", "averageUtilization": share}
    cpu = [] if share is None else [metric("Resource", name="cpu", target=expected)]
    rules = {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 2}], "tolerance": "1"}
    spec: JsonObject = {"maxReplicas": 3, **({"metrics": [*found, *cpu]} if found or cpu else {})}
    if behave:
        spec["behavior"] = {"scaleUp": rules, "scaleDown": {**rules, "stabilizationWindowSeconds": 0}}
    new = {"apiVersion": "autoscaling/v2", "metadata": {"annotations": {"mine": "x"}}, "spec": spec}
    old = to_old(new)
    assert old["spec"].keys() <= {"maxReplicas", "targetCPUUtilizationPercentage"}
    assert to_new(old) == new


def test_the_annotations_are_written_as_they_always_were() -> None:
    """Annotations hold metrics in their v1 form, and behavior in the server's own type."""
    spec = {
        "metrics": [metric("Pods", metric={"name": "qps"}, target={"type": "AverageValue", "averageValue": "100"})],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
    }
    notes = to_old({"metadata": {}, "spec": spec})["metadata"]["annotations"]
    rules = '{"StabilizationWindowSeconds":60,"SelectPolicy":null,"Policies":null,"Tolerance":null}'
    assert notes[f"{NOTE}metrics"] == '[{"type":"Pods","pods":{"metricName":"qps","targetAverageValue":"100"}}]'
    assert notes[f"{NOTE}behavior"] == f'{{"ScaleUp":null,"ScaleDown":{rules}}}'


def test_the_status_keeps_its_amounts() -> None:
    """CPU utilization is shown in its status field and kept in the annotation."""
    current = {"averageUtilization": 3, "averageValue": "3m"}
    status = {"currentMetrics": [metric("Resource", name="cpu", current=current)]}
    old = to_old({"metadata": {}, "spec": {}, "status": status})
    assert old["status"]["currentCPUUtilizationPercentage"] == 3
    [metrics_kept] = json.loads(old["metadata"]["annotations"][f"{NOTE}current-metrics"])
    amounts = {"currentAverageUtilization": 3, "currentAverageValue": "3m"}
    assert metrics_kept == {"type": "Resource", "resource": {"name": "cpu", **amounts}}
    assert to_new(old)["status"]["currentMetrics"] == status["currentMetrics"]


def test_unreadable_conversion_annotations_are_dropped() -> None:
    """Conversion annotations that cannot be parsed are dropped without error."""
    created = to_new({"metadata": {"annotations": {f"{NOTE}metrics": "{", f"{NOTE}behavior": "[]"}}, "spec": {}})
    assert created == {"apiVersion": "autoscaling/v2", "metadata": {}, "spec": {}}


async def test_a_target_comes_by_itself() -> None:
    """An autoscaler without metrics gets 80 % CPU utilization in every version."""
    async with Environment() as env:
        call = Caller(env)
        stored = (await call("POST", URL.format("v1"), {"metadata": {"name": "a"}, **GOOD})).json
        assert stored["spec"]["targetCPUUtilizationPercentage"] == 80
        noted = {"name": "b", "annotations": {f"{NOTE}metrics": "[]", "mine": "x"}}
        stored = (await call("POST", URL.format("v2"), {"metadata": noted, **GOOD})).json
        assert stored["metadata"]["annotations"] == {"mine": "x"}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("spec.maxReplicas", -1, ["maxReplicas: Invalid value: -1: must be greater than or equal to 1",
                                  "maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`"]),
        ("spec.maxReplicas", 0, ["maxReplicas: Required value: must be set and greater than 0",
                                 "maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`"]),
        ("spec.scaleTargetRef.apiVersion", "v1",
         ['scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group']),
        ("spec.scaleTargetRef.apiVersion", "a/b/c",
         ['scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
        ("spec.scaleTargetRef", {"apiVersion": "v1", "kind": "ReplicationController", "name": "r"}, []),
        ("spec.metrics", [metric("Resource", name="cpu", target={"averageUtilization": 1})],
         ["metrics[0].resource.target.type: Required value: must specify a metric target type",
          'metrics[0].resource.target.type: Invalid value: "": must be either Utilization, Value, or AverageValue']),
        ("spec.metrics", [{"type": "Pods", "resource": {"name": "m", "target": {"type": "Value", "averageValue": 1}}}],
         ["metrics[0].pods: Required value: must populate information for the given metric source"]),
        ("spec.metrics", [metric("External", metric=NAMED, target={"type": "Value", "value": 1, "averageValue": 1})],
         [f"metrics[0].external.target.value: Forbidden: {BOTH}"]),
        ("spec.metrics", [metric("Object", metric={"name": "m"}, target={"type": "Value"},
                                 describedObject={"kind": "Service", "name": "s", "apiVersion": "v1"})],
         ["metrics[0].object.target.averageValue: Required value: must set either a target value or averageValue"]),
    ],
)  # fmt: skip
def test_autoscaler_errors_name_the_field(path: str, value: Any, found: list[str]) -> None:
    """Each invalid field of an autoscaler is an error at its path."""
    assert wrong(AUTOSCALERS, changed(GOOD, path, value)) == [f"spec.{text}" for text in found]


async def test_conflicts_are_found_across_versions() -> None:
    """The manager of the v1 target conflicts with a change of the same metric in v2."""
    expected = {"type": "Utilization", "averageUtilization": 70}
    new = {"spec": {"metrics": [metric("Resource", name="cpu", target=expected)]}}
    old = {"spec": {**GOOD["spec"], "targetCPUUtilizationPercentage": 50}}

    async with Environment() as env:
        call = Caller(env)

        async def apply(version: str, tree: JsonObject, query: str) -> Answer:
            head = {
                "apiVersion": f"autoscaling/{version}",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "a"},
            }
            url = f"{URL.format(version)}/a?{query}"
            return await call("PATCH", url, {**head, **tree}, content_type="application/apply-patch+yaml")

        assert (await apply("v1", old, "fieldManager=one")).status == 201
        refused = await apply("v2", new, "fieldManager=two")
        assert refused.status == 409
        assert refused.json["message"].endswith('conflict with "one": .spec.targetCPUUtilizationPercentage')
        taken = (await apply("v2", new, "fieldManager=two&force=true")).json
        fields = {entry["manager"]: entry["fieldsV1"]["f:spec"] for entry in taken["metadata"]["managedFields"]}
        assert fields["one"].keys() == {"f:maxReplicas", "f:scaleTargetRef"}
        assert fields["two"].keys() == {"f:metrics"}
