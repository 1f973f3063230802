"""Pod resizes that exceed the capacity or the features of the node."""

from __future__ import annotations

from typing import Any

import pytest
from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

PODS = "/api/v1/namespaces/default/pods"
FEATURES = ["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"]
SMALL = {"requests": {"cpu": "100m", "memory": "8"}, "limits": {"cpu": "9", "memory": "1Gi"}}
MORE = {"requests": {"cpu": "1500m"}}


def node(*, allocatable: Any, system: str = "linux", features: Any = FEATURES) -> JsonObject:
    """A node with an agent of our making."""
    status = {"allocatable": allocatable, "capacity": allocatable, "declaredFeatures": features}
    return {"metadata": {"name": "n", "labels": {"kubernetes.io/os": system}}, "status": status}


def pod(*, on: str = "n") -> JsonObject:
    """A pod on a node."""
    containers = [{"name": "c", "image": "x", "resources": SMALL}]
    first = [{"name": "i", "image": "x", "resources": SMALL}]
    spec = {"containers": containers, "initContainers": first, "resources": SMALL}
    return {"metadata": {"name": "p"}, "spec": {**spec, **({"nodeName": on} if on else {})}}


LARGE = {"cpu": "2", "memory": "1Gi"}
WHERE = "Node didn't have enough allocatable resources"
CONTAINER = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "50m"}}}]}
FIRST = {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "200m"}}}]}
WHOLE = {"resources": MORE}


@pytest.mark.parametrize(
    ("made", "spec", "why", "cause"),
    [
        (node(allocatable=LARGE), WHOLE, "", ""),
        (None, CONTAINER, 'node "n" not found', ""),
        (None, WHOLE, 'node "n" not found', ""),
        (node(allocatable={"cpu": "1", "memory": "1"}), WHOLE,
         f"{WHERE}: cpu, requested: 1500, allocatable: 1000; memory, requested: 8, allocatable: 1", "NodeCapacity"),
        (node(allocatable=LARGE, system="windows"), WHOLE,
         'pod resize is only supported on linux nodes, node "n" is "windows"', "UnsupportedPlatform"),
        (node(allocatable=LARGE, features=[]), WHOLE,
         f'pod update requires features {FEATURES[0]} which are not available on node "n"', ""),
        (node(allocatable=LARGE, features=FEATURES[:1]), {**WHOLE, **FIRST},
         f'pod update requires features {FEATURES[1]} which are not available on node "n"', ""),
        (node(allocatable=LARGE), {**WHOLE, **FIRST}, "", ""),
    ],
)  # fmt: skip
async def test_nodes_that_cannot(made: JsonObject | None, spec: JsonObject, why: str, cause: str) -> None:
    """A resize needs a node that exists, has capacity, runs Linux and declares the feature."""
    async with Environment() as env:
        call = Caller(env)
        if made is not None:
            assert (await call("POST", "/api/v1/nodes", made)).status == 201
            await call("PUT", "/api/v1/nodes/n/status", made)
        assert (await call("POST", PODS, pod())).status == 201
        with_node = {"spec": spec}
        answer = await call(
            "PATCH", f"{PODS}/p/resize", with_node, content_type="application/strategic-merge-patch+json"
        )
        assert answer.status == (403 if why else 200), answer.json
        if why:
            assert answer.json["message"] == f'pods "p" is forbidden: {why}'
            assert answer.json["details"].get("causes", []) == ([{"reason": cause}] if cause else [])


async def test_a_pod_without_node_may_be_resized() -> None:
    """A pod that has no node yet may be resized."""
    async with Environment() as env:
        call = Caller(env)
        assert (await call("POST", PODS, pod(on=""))).status == 201
        answer = await call("PATCH", f"{PODS}/p/resize", {"spec": WHOLE}, content_type=MERGE)
        assert answer.status == 200, answer.json
