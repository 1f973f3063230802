"""The memory of a server is bounded by its live objects, not by the names that clients have used."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from contextlib import suppress

import pytest
from container_sizes import container_sizes, growth

from envtest.environment import Environment
from opsdk.errors import ApiError, NotFoundError
from opsdk.http.server.request import HttpRequest, Query
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import Kubectl, deployment

_CONSTANT = (
    "opsdk.structured_merge.",  # caches of path elements and field sets
    "FieldSet.",
    "IdentityCache.",
    "FieldManager._by_structure",  # 128 structures of new objects for each kind
    "History._sizes",  # as many as changes
    "History._changes",  # `history_limit` changes for each resource
    "StorageChange.",
    "AuditLog.",
    "AuditEvent.",
    "RequestInfo.",
    "Journal._entries",
    "Journal.idle",  # 10,000 objects and users
    "Entry.",
    "Correlator.",  # 4,096 kinds of Events for each controller
    "_SimilarEvents.",
    "Chain._bound",  # 4,096 resources
    "ConnectionPool",  # 64 endpoints of webhooks
    "FlowControl._classified",  # 1,024 users and resources
    "ObjectCache._sorted",  # the live objects, as long as they are not changed after a read
    "Metrics._requests",  # 10,000 combinations of labels, each with a histogram
    "Histograms._series",
    "HistogramSeries._counts",
    "AdmissionMetrics._named",  # 10,000 webhooks
    "StorageMetrics._series",  # 10,000 operations on resources
    "LoopHistogramSeries._counts",  # as many as those
    "ObservingAuthorizer.",  # 10,000 uses
    "VirtualLoop._scheduled",  # asyncio removes cancelled timers when they are the majority of more than 100
)
"""What is bounded by a constant above the growth that the test allows."""
_CACHED_FUNCTIONS = ("urlsplit", "_is_label")
"""Functions with an `lru_cache`."""
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def _named(kind: str, name: str, **fields: object) -> JsonObject:
    return {"kind": kind, "metadata": {"name": name}, **fields}


def _definition(name: str) -> JsonObject:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": f"{name}s", "singular": name, "kind": name.title()}
    spec = {"group": f"{name}.dev", "scope": "Namespaced", "names": names, "versions": [version]}
    return _named("CustomResourceDefinition", f"{name}s.{name}.dev", spec=spec)


def _cluster_objects(name: str) -> Mapping[str, JsonObject]:
    """Return one object of each cluster-scoped kind that the server follows, by collection."""
    hook = {
        "name": f"{name}.demo.dev",
        "clientConfig": {"url": f"https://{name}.invalid/hook"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "rules": [{"operations": ["CREATE"], "apiGroups": [f"{name}.dev"], "apiVersions": ["*"], "resources": ["*"]}],
    }
    rules = {"resourceRules": [{k: v for k, v in rule.items() if k != "scope"} for rule in hook["rules"]]}  # type: ignore[attr-defined]
    policy = {"matchConstraints": rules, "validations": [{"expression": f"object.metadata.name != '{name}-denied'"}]}
    role = _named("ClusterRole", name, rules=[])
    # A namespaced owner is invalid: the garbage collector reports it, and keeps the object.
    role["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name}]
    return {
        f"{_RBAC}/clusterroles": role,
        f"{_RBAC}/clusterrolebindings": _named(
            "ClusterRoleBinding",
            name,
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            subjects=[{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}],
        ),
        f"{_ADMISSION}/validatingwebhookconfigurations": _named(
            "ValidatingWebhookConfiguration", name, webhooks=[hook]
        ),
        f"{_ADMISSION}/validatingadmissionpolicies": _named("ValidatingAdmissionPolicy", name, spec=policy),
        f"{_ADMISSION}/validatingadmissionpolicybindings": _named(
            "ValidatingAdmissionPolicyBinding", name, spec={"policyName": name, "validationActions": ["Deny"]}
        ),
        "/apis/apiregistration.k8s.io/v1/apiservices": _named(
            "APIService",
            f"v1.{name}.agg",
            spec={
                "group": f"{name}.agg",
                "version": "v1",
                "groupPriorityMinimum": 10,
                "versionPriority": 10,
                "insecureSkipTLSVerify": True,
                "service": {"name": name, "namespace": "default"},
            },
        ),
        "/api/v1/nodes": _named("Node", name),
        "/apis/scheduling.k8s.io/v1/priorityclasses": _named("PriorityClass", name, value=1),
    }


def _namespaced_objects(name: str) -> Mapping[str, JsonObject]:
    container = {"name": "c", "image": "x:1"}
    daemons = {"selector": {"matchLabels": {"app": f"d{name}"}}}
    daemons["template"] = {"metadata": {"labels": {"app": f"d{name}"}}, "spec": {"containers": [container]}}
    return {
        "api/v1:configmaps": _named("ConfigMap", name),
        "api/v1:services": _named("Service", name, spec={"selector": {"app": name}, "ports": [{"port": 80}]}),
        "api/v1:persistentvolumeclaims": _named(
            "PersistentVolumeClaim",
            name,
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        ),
        "api/v1:resourcequotas": _named("ResourceQuota", name, spec={"hard": {"pods": "9"}}),
        "apis/apps/v1:deployments": deployment(name),
        "apis/apps/v1:daemonsets": _named("DaemonSet", name, spec=daemons),
        "apis/batch/v1:jobs": _named(
            "Job", name, spec={"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
        ),
        "apis/policy/v1:poddisruptionbudgets": _named("PodDisruptionBudget", name, spec={"maxUnavailable": 1}),
    }


async def _refused_requests(api: Kubectl, name: str) -> None:
    """Send writes that are refused, and an update that changes nothing."""
    place = f"/api/v1/namespaces/{name}"
    bad_port = {"selector": {"app": name}, "ports": [{"port": 0}]}
    for path, obj in (
        (f"{place}/services", _named("Service", f"{name}-invalid", spec=bad_port)),
        (f"{place}/services", _named("Service", name, spec={"ports": [{"port": 80}]})),
        (f"{place}/services?dryRun=All", _named("Service", f"{name}-dry", spec={"ports": [{"port": 80}]})),
        (f"{place}/pods", _named("Pod", f"{name}-invalid", spec={})),
    ):
        with suppress(ApiError):
            await api.create(path, obj)
    await api.merge(f"{place}/configmaps/{name}", {})


async def _requests_with_names(env: Environment, api: Kubectl, name: str) -> None:
    """Send requests whose paths, queries, headers and users have the name."""
    await api.get(f"/api/v1/pods?labelSelector=app%3D{name}&fieldSelector=metadata.name%3D{name}")
    for path in (f"/api/v1/namespaces/{name}/pods/{name}/log", f"/apis/{name}/v1/{name}", f"/{name}/{name}"):
        headers = {"authorization": f"Bearer {env.config.token}", "user-agent": f"{name}/1", "accept": f"x/{name}"}
        headers |= {"impersonate-user": name, "impersonate-group": f"{name}-group"}
        await env.server.respond(HttpRequest("GET", path, Query(f"a={name}"), headers, lambda: asyncio.sleep(0, {})))
        headers["authorization"] = f"Bearer {name}"
        await env.server.respond(HttpRequest("GET", path, Query(), headers, lambda: asyncio.sleep(0, {})))


async def _churn_one(env: Environment, api: Kubectl, name: str) -> None:
    """Create objects of many kinds, use them, and delete them."""
    cluster = _cluster_objects(name)
    await api.create("/api/v1/namespaces", _named("Namespace", name))
    for path, obj in cluster.items():
        await api.create(path, obj)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.create(definitions, _definition(name))
    await asyncio.sleep(1)
    group, plural = f"{name}.dev", f"{name}s"
    custom = {"apiVersion": f"{group}/v1", **_named(name.title(), name)}
    await api.create(f"/apis/{group}/v1/namespaces/{name}/{plural}", custom)
    for place, obj in _namespaced_objects(name).items():
        prefix, _, collection = place.partition(":")
        await api.create(f"/{prefix}/namespaces/{name}/{collection}", obj)
    await api.get(f"/openapi/v3/apis/{group}/v1")
    await _requests_with_names(env, api, name)
    await _refused_requests(api, name)
    await asyncio.sleep(3)
    for path, obj in cluster.items():
        await api.delete(f"{path}/{obj['metadata']['name']}")
    await asyncio.sleep(60)
    await api.delete(f"/api/v1/namespaces/{name}")
    await asyncio.sleep(60)
    await api.delete(f"{definitions}/{plural}.{group}")
    await asyncio.sleep(1)
    for path in (f"/api/v1/namespaces/{name}", f"{definitions}/{plural}.{group}"):
        with pytest.raises(NotFoundError):
            await api.get(path)


async def _churn(env: Environment, prefix: str, names: int) -> None:
    api = Kubectl(env)
    for number in range(names):
        await _churn_one(env, api, f"{prefix}{number}")
    await asyncio.sleep(2 * 3600)  # Events expire after an hour
    gc.collect()


@pytest.mark.slow
@pytest.mark.parametrize("names", [16, pytest.param(40, marks=pytest.mark.deep)])
async def test_deleted_names_leave_nothing_behind(names: int) -> None:
    """After some names of each kind, no container of the server has grown by more than a quarter of them."""
    async with Environment(controllers="cluster") as env:
        env.journal.clear()
        await _churn(env, "first", 5)
        before = container_sizes(env, servers=True)
        await _churn(env, "second", names)
        after = container_sizes(env, servers=True)
    assert _unbounded(growth(before, after, above=names // 4)) == {}


def _unbounded(grown: Mapping[str, int]) -> dict[str, int]:
    """Return what has grown and has no constant bound."""
    bounded = (label for label in grown if label.startswith(_CONSTANT) or label.endswith(_CACHED_FUNCTIONS))
    return {label: grown[label] for label in grown.keys() - set(bounded)}
