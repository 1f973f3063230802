"""Quotas: usage equals a recount, and stays within the limits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_caller import MERGE, Caller

from envtest.admission.pod_resources import read
from envtest.admission.resource_quota.check import QuotaError, QuotaRequest, check_request, recount, written
from envtest.admission.resource_quota.evaluators import Registry
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

CORE = "/api/v1/namespaces/default"
QUOTAS = f"{CORE}/resourcequotas"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
REGISTRY = Registry()


def pod(name: str, cpu: str = "1", **spec: Any) -> JsonObject:
    """A pod that asks for some of a processor."""
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": resources}], **spec},
    }


def quota(hard: JsonObject, **spec: Any) -> JsonObject:
    """A quota that knows that nothing is used."""
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": status}


HARD = st.dictionaries(
    st.sampled_from(
        (
            "pods", "cpu", "limits.cpu", "count/pods", "services", "services.nodeports", "count/configmaps",
            "configmaps", "requests.storage", "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
        )
    ),
    st.sampled_from(("0", "1", "2500m", "4", "3Gi")),
)  # fmt: skip
OBJECTS = st.one_of(
    st.builds(lambda c: ("pods", pod("p", c)), st.sampled_from(("0", "100m", "1", "1500m"))),
    st.builds(
        lambda kind, n: ("services", {"spec": {"type": kind, "ports": [{"port": i} for i in range(n)]}}),
        st.sampled_from(("ClusterIP", "NodePort", "LoadBalancer")),
        st.integers(0, 2),
    ),
    st.just(("configmaps", {})),
    st.builds(
        lambda size, name: (
            "persistentvolumeclaims",
            {"spec": {"storageClassName": name, "resources": {"requests": {"storage": size}}}},
        ),
        st.sampled_from(("1Gi", "1536Mi", "1500m")),
        st.sampled_from(("gold", "")),
    ),
)
STEPS = st.lists(st.tuples(st.sampled_from(("create", "update", "delete")), st.integers(0, 3), OBJECTS), max_size=12)


@given(HARD, STEPS)
def test_what_is_used_is_what_a_recount_finds(hard: JsonObject, steps: list[Any]) -> None:
    """After any writes, usage equals a recount and stays within the quota; rejected writes change nothing."""
    ruled = quota(hard)
    stored: dict[tuple[str, int], JsonObject] = {}

    def count() -> Any:
        result = [(REGISTRY.of("", r), [o for (k, _), o in stored.items() if k == r]) for r in kinds]
        return recount(ruled, [(e, o) for e, o in result if e is not None], NOW)

    kinds = ("pods", "services", "configmaps", "persistentvolumeclaims")
    for operation, number, (kind, obj) in steps:
        evaluator, old = REGISTRY.of("", kind), stored.get((kind, number))
        assert evaluator is not None
        if operation == "delete":
            stored.pop((kind, number), None)
            ruled["status"]["used"] = written(count())
            continue
        word = "CREATE" if old is None else "UPDATE"
        if not evaluator.handles(word, ""):
            continue
        try:
            changed = check_request([ruled], QuotaRequest(evaluator=evaluator, obj=obj, old=old, now=NOW))
        except QuotaError:
            continue
        stored[kind, number] = obj
        for _, used in changed:
            assert all(used[name] <= amount for name, amount in read(hard).items() if name in used and changed)
            ruled["status"]["used"] = written(used)
        if word == "CREATE":
            continue
        # What shrinks is found by a recount only.
        assert all(count()[name] <= amount for name, amount in read(ruled["status"]["used"]).items())
        ruled["status"]["used"] = written(count())
    assert read(ruled["status"]["used"]) == count()


@pytest.mark.parametrize(
    ("spec", "inside", "outside"),
    [
        ({"scopes": ["Terminating"]}, pod("a", activeDeadlineSeconds=5), pod("b")),
        ({"scopes": ["NotTerminating"]}, pod("a"), pod("b", activeDeadlineSeconds=5)),
        ({"scopes": ["BestEffort"]}, {"spec": {"containers": [{"name": "c"}]}}, pod("b")),
        ({"scopes": ["NotBestEffort"]}, pod("a"), {"spec": {"containers": [{"name": "c"}]}}),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["hi"]}]
                }
            },
            pod("a", priorityClassName="hi"),
            pod("b", priorityClassName="lo"),
        ),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            pod(
                "a",
                affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}},
            ),
            pod("b", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}),
        ),
    ],
)
def test_scopes_select_the_pods_that_a_quota_counts(spec: JsonObject, inside: JsonObject, outside: JsonObject) -> None:
    """A quota with scopes counts the pods that match all of them, and no other resources."""
    ruled, evaluator = quota({"pods": "1", "count/configmaps": "1"}, **spec), REGISTRY.of("", "pods")
    assert evaluator is not None
    assert evaluator.matches(ruled, ["pods"], inside)
    assert not evaluator.matches(ruled, ["pods"], outside)
    other = REGISTRY.of("", "configmaps")
    assert other is not None
    assert not other.matches(ruled, ["count/configmaps"], {})


def test_a_pod_that_ended_counts_as_an_object_only() -> None:
    """A finished or overdue pod uses only count/pods."""
    evaluator = REGISTRY.of("", "pods")
    assert evaluator is not None
    ended = {**pod("a"), "status": {"phase": "Failed"}}
    overdue = pod("a")
    overdue["metadata"].update(deletionTimestamp="2025-12-31T23:59:00Z", deletionGracePeriodSeconds=30)
    for item in (ended, overdue):
        assert written(evaluator.usage(item, NOW)) == {"count/pods": "1"}
    assert "cpu" in evaluator.usage(pod("a"), NOW)


async def test_a_quota_without_usage_rejects_creates() -> None:
    """A quota without recorded usage rejects creates, and a dry run changes no usage."""
    async with Environment() as env:
        call = Caller(env)
        hard = {"count/leases.coordination.k8s.io": "1", "pods": "5", "limits.cpu": "1"}
        await call("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        await call("PATCH", f"{QUOTAS}/q/status", {"status": {"hard": hard}}, content_type=MERGE)
        leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
        answer = await call("POST", leases, {"metadata": {"generateName": "l-"}})
        assert answer.status == 403
        assert answer.json["message"].endswith(
            "is forbidden: status unknown for quota: q, resources: count/leases.coordination.k8s.io"
        )
        used = {"status": {"used": dict.fromkeys(hard, "0")}}
        await call("PATCH", f"{QUOTAS}/q/status", used, content_type=MERGE)
        assert (await call("POST", f"{leases}?dryRun=All", {"metadata": {"name": "a"}})).status == 201
        assert (await call("POST", leases, {"metadata": {"name": "a"}})).status == 201
        answer = await call("POST", leases, {"metadata": {"name": "b"}})
        assert answer.json["message"] == (
            'leases.coordination.k8s.io "b" is forbidden: exceeded quota: q, requested:'
            " count/leases.coordination.k8s.io=1, used: count/leases.coordination.k8s.io=1,"
            " limited: count/leases.coordination.k8s.io=1"
        )
        silent = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": n, "image": "x"} for n in "ba"]}}
        answer = await call("POST", f"{CORE}/pods", silent)
        assert answer.json["message"] == 'pods "p" is forbidden: failed quota: q: must specify limits.cpu for: a,b'
        owners = (await call("GET", f"{QUOTAS}/q")).json["metadata"]["managedFields"]
        assert ("kube-apiserver", "status") in [(o["manager"], o.get("subresource")) for o in owners]


async def test_the_controller_counts_what_is_gone() -> None:
    """Usage follows creations, deletions, pods that end, and a changed wish; both count custom resources alike."""
    async with Environment(controllers="resourcequota") as env:
        call = Caller(env)
        hard = {"pods": "2", "requests.cpu": "3", "configmaps": "9"}
        await call("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})

        async def used() -> Any:
            await asyncio.sleep(1)
            return (await call("GET", f"{QUOTAS}/q")).json["status"]

        assert (await used())["used"] == {"configmaps": "0", "pods": "0", "requests.cpu": "0"}
        for name in ("a", "b"):
            assert (await call("POST", f"{CORE}/pods", pod(name))).status == 201
        assert (await call("POST", f"{CORE}/pods", pod("c"))).status == 403
        assert (await used())["used"] == {"configmaps": "0", "pods": "2", "requests.cpu": "2"}
        await call("DELETE", f"{CORE}/pods/a")
        done = {"status": {"phase": "Succeeded"}}
        await call("PATCH", f"{CORE}/pods/b/status", done, content_type=MERGE)
        assert (await used())["used"]["pods"] == "0"
        await call("PATCH", f"{QUOTAS}/q", {"spec": {"hard": {"configmaps": None}}}, content_type=MERGE)
        assert await used() == {
            "hard": {"pods": "2", "requests.cpu": "3"},
            "used": {"pods": "0", "requests.cpu": "0"},
        }


async def test_quotas_say_possible_things() -> None:
    """Scopes that contradict each other, or that do not fit what is limited, are refused; they never change."""
    async with Environment() as env:
        call = Caller(env)
        spec = {"hard": {"cpu": "1"}, "scopes": ["BestEffort", "NotBestEffort", "Odd"]}
        answer = await call("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": spec})
        texts = [(c["field"], c["message"]) for c in answer.json["details"]["causes"]]
        scopes = '["BestEffort","NotBestEffort","Odd"]'
        assert texts == [
            ("spec.scopes", f"Invalid value: {scopes}: unsupported scope applied to resource"),
            ("spec.scopes", f"Invalid value: {scopes}: unsupported scope"),
            ("spec.scopes", f"Invalid value: {scopes}: conflicting scopes"),
        ]
        selector = {"matchExpressions": [{"scopeName": "Terminating", "operator": "In", "values": []}]}
        answer = await call("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"scopeSelector": selector}})
        assert [c["field"].rpartition(".")[2] for c in answer.json["details"]["causes"]] == ["operator", "values"]
        good = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}
        assert (await call("POST", QUOTAS, good)).status == 201
        answer = await call("PATCH", f"{QUOTAS}/q", {"spec": {"scopes": ["Terminating"]}}, content_type=MERGE)
        assert answer.json["details"]["causes"][0]["message"] == 'Invalid value: ["Terminating"]: field is immutable'
