"""Field ownership of bootstrap objects."""

from __future__ import annotations

import pytest
from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

SERVER = "kube-apiserver"
PRODUCER = "api-priority-and-fairness-config-producer-v1"
CONSUMER = "api-priority-and-fairness-config-consumer-v1"
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PODS = "/api/v1/namespaces/default/pods"


def paths(fields: JsonObject) -> set[str]:
    """The named fields, two steps deep."""
    return {
        f"{key[2:]}.{inner[2:]}" if inner != "." else key[2:]
        for key, part in fields.items()
        for inner in part or {".": {}}
    }


@pytest.mark.parametrize(
    ("url", "manager", "found"),
    [
        ("/api/v1/namespaces/default", SERVER, {"metadata.labels"}),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
            SERVER,
            {"value", "description", "preemptionPolicy"},
        ),
        ("/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1", SERVER, {"metadata.labels", "spec.parentRef"}),
        ("/apis/networking.k8s.io/v1/servicecidrs/kubernetes", SERVER, {"spec.cidrs"}),
        (
            f"{FLOWS}/prioritylevelconfigurations/workload-low",
            PRODUCER,
            {"metadata.annotations", "spec.limited", "spec.type"},
        ),
        (
            "/api/v1/namespaces/default/services/kubernetes",
            SERVER,
            {
                "metadata.labels",
                *(f"spec.{key}" for key in ("clusterIP", "internalTrafficPolicy", "ipFamilyPolicy", "ports")),
                *(f"spec.{key}" for key in ("sessionAffinity", "type")),
            },
        ),
    ],
)
async def test_the_server_manages_the_fields_that_it_sets(url: str, manager: str, found: set[str]) -> None:
    """The server is the only manager of bootstrap objects, and manages exactly the fields that it sets."""
    async with Environment() as env:
        stored = (await Caller(env)("GET", url)).json
        [owner] = stored["metadata"]["managedFields"]
        assert (owner["manager"], owner["operation"]) == (manager, "Update")
        assert owner["time"] == stored["metadata"]["creationTimestamp"]
        assert paths(owner["fieldsV1"]) == found


async def test_a_flow_schema_has_two_managers() -> None:
    """A bootstrap flow schema has one manager for its spec and one for its status."""
    async with Environment() as env:
        stored = (await Caller(env)("GET", f"{FLOWS}/flowschemas/global-default")).json
        owners = {entry["manager"]: entry for entry in stored["metadata"]["managedFields"]}
        assert owners.keys() == {PRODUCER, CONSUMER}
        assert owners[CONSUMER]["subresource"] == "status"
        assert stored["status"]["conditions"][0]["reason"] == "Found"


async def test_evictions_take_over_the_changed_budget_fields() -> None:
    """An eviction takes over the budget status fields that it changes."""
    async with Environment() as env:
        call = Caller(env)
        labels = {"a": "b"}
        await call(
            "POST",
            BUDGETS,
            {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": labels}, "minAvailable": 0}},
        )
        status = {
            "disruptionsAllowed": 1,
            "currentHealthy": 1,
            "desiredHealthy": 0,
            "expectedPods": 1,
            "observedGeneration": 1,
        }
        await call("PATCH", f"{BUDGETS}/b/status", {"status": status}, content_type=MERGE)
        pod = {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await call("POST", PODS, pod)
        running = {"status": {"phase": "Running"}}
        await call("PATCH", f"{PODS}/p/status", running, content_type=MERGE)
        assert (await call("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})).status == 201
        stored = (await call("GET", f"{BUDGETS}/b")).json
        owned = {e["manager"]: paths(e["fieldsV1"]) for e in stored["metadata"]["managedFields"] if "subresource" in e}
        assert owned[SERVER] == {f"status.{key}" for key in ("conditions", "disruptedPods", "disruptionsAllowed")}
        assert "status.disruptionsAllowed" not in owned["tests"]


async def test_finalize_keeps_the_status_and_its_managers() -> None:
    """A finalize request without status keeps the namespace's status and its managers."""
    async with Environment() as env:
        call = Caller(env)
        stored = (await call("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})).json
        status = {"status": {"conditions": [{"type": "Odd", "status": "True"}]}}
        await call("PATCH", "/api/v1/namespaces/n/status", status, content_type=MERGE)
        body = {"metadata": {"name": "n", "uid": stored["metadata"]["uid"]}, "spec": {"finalizers": ["kubernetes"]}}
        done = (await call("PUT", "/api/v1/namespaces/n/finalize", body)).json
        owners = done["metadata"]["managedFields"]
        assert [owner["subresource"] for owner in owners if "subresource" in owner] == ["status"]
