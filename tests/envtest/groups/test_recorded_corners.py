"""Corners of the built-in kinds that recordings of kube-apiserver 1.36 show."""

from __future__ import annotations

from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

NS = "/api/v1/namespaces/default"
JSON_PATCH = "application/json-patch+json"
TEMPLATE: JsonObject = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def test_replication_controllers_orphan_their_pods() -> None:
    """Without a propagation policy a ReplicationController waits for its pods to be orphaned."""
    async with Environment() as env:
        call = Caller(env)
        spec = {"replicas": 0, "selector": {"a": "b"}, "template": TEMPLATE}
        await call("POST", f"{NS}/replicationcontrollers", {"metadata": {"name": "rc"}, "spec": spec})
        deleted = (await call("DELETE", f"{NS}/replicationcontrollers/rc")).json
        assert (deleted["kind"], deleted["metadata"]["finalizers"]) == ("ReplicationController", ["orphan"])


async def test_unready_pods_may_be_evicted() -> None:
    """An unready pod can be evicted if enough others are healthy, or if its budget always allows it."""
    async with Environment() as env:
        call = Caller(env)
        budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        for name, policy, healthy, status in (("a", "IfHealthyBudget", 1, 201), ("b", "IfHealthyBudget", 0, 429),
                                              ("c", "AlwaysAllow", 0, 201)):  # fmt: skip
            meta = {"name": name, "labels": {"app": name}}
            spec = {"selector": {"matchLabels": {"app": name}}, "minAvailable": 1, "unhealthyPodEvictionPolicy": policy}
            await call("POST", f"{NS}/pods", {"metadata": meta, "spec": TEMPLATE["spec"]})
            await call("PATCH", f"{NS}/pods/{name}/status", {"status": {"phase": "Running"}}, content_type=MERGE)
            await call("POST", budgets, {"metadata": {"name": name}, "spec": spec})
            counts = {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": healthy, "disruptionsAllowed": 0}
            await call("PATCH", f"{budgets}/{name}/status", {"status": counts}, content_type=MERGE)
            evicted = await call("POST", f"{NS}/pods/{name}/eviction", {"metadata": {"name": name}})
            assert evicted.status == status


async def test_services_that_change_their_type() -> None:
    """A Service that is no longer a load balancer loses its ingress; a cluster IP cannot become None."""
    async with Environment() as env:
        call = Caller(env)
        spec = {"type": "LoadBalancer", "ports": [{"port": 1}]}
        await call("POST", f"{NS}/services", {"metadata": {"name": "s"}, "spec": spec})
        ingress = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
        response = await call("PATCH", f"{NS}/services/s/status", ingress, content_type=MERGE)
        assert response.json["status"]["loadBalancer"]["ingress"]
        plain = await call("PATCH", f"{NS}/services/s", {"spec": {"type": "ClusterIP"}}, content_type=MERGE)
        assert plain.json["status"]["loadBalancer"] == {}
        headless = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}], "clusterIP": "None"}}
        refused = (await call("PUT", f"{NS}/services/s", headless)).json
        assert [c["field"] for c in refused["details"]["causes"]] == ["spec.clusterIPs[0]"]


async def test_scales_show_selectors_in_a_stable_order() -> None:
    """Requirements are sorted by key; of one key, matchLabels come first."""
    async with Environment() as env:
        call = Caller(env)
        path = "/apis/apps/v1/namespaces/default/replicasets"
        expressions = [{"key": "a", "operator": "In", "values": ["c", "b"]}]
        selector = {"matchLabels": {"a": "b"}, "matchExpressions": expressions}
        await call("POST", path, {"metadata": {"name": "r"}, "spec": {"selector": selector, "template": TEMPLATE}})
        assert (await call("GET", f"{path}/r/scale")).json["status"]["selector"] == "a=b,a in (b,c)"


async def test_generated_job_labels_must_match_the_job() -> None:
    """Given job-name labels must match the job; a name that is too long for them is reported once."""
    async with Environment() as env:
        call = Caller(env)
        path = "/apis/batch/v1/namespaces/default/jobs"
        pod = {**TEMPLATE["spec"], "restartPolicy": "Never"}
        lies = {"metadata": {"labels": {"job-name": "lies"}}, "spec": pod}
        refused = (await call("POST", path, {"metadata": {"name": "j"}, "spec": {"template": lies}})).json
        assert [c["field"] for c in refused["details"]["causes"]] == ["spec.template.metadata.labels[job-name]"]
        spec = {"template": {"spec": pod}}
        created = (await call("POST", path, {"metadata": {"name": "j"}, "spec": spec})).json
        assert created["metadata"]["labels"]["job-name"] == "j"
        refused = (await call("POST", path, {"metadata": {"name": "j" * 70}, "spec": spec})).json
        assert {c["field"] for c in refused["details"]["causes"]} == {"spec.template.labels"}


async def test_patches_that_replace_or_mistype_the_object() -> None:
    """A document without a name is a 400; an unknown patch type is a 415 with empty details."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", f"{NS}/configmaps", {"metadata": {"name": "a"}})
        operations = [{"op": "replace", "path": "", "value": {"kind": "ConfigMap"}}]
        nameless = await call("PATCH", f"{NS}/configmaps/a", operations, content_type=JSON_PATCH)
        assert (nameless.status, nameless.json["reason"]) == (400, "BadRequest")
        unknown = await call("PATCH", f"{NS}/configmaps/a", {}, content_type="application/json")
        assert (unknown.status, unknown.json["details"]) == (415, {})


async def test_namespaces_check_their_preconditions_and_finalizers() -> None:
    """The namespace's own handler names the resource; both errors of a finalizer are reported."""
    async with Environment() as env:
        call = Caller(env)
        body = {"preconditions": {"uid": "wrong"}}
        refused = (await call("DELETE", "/api/v1/namespaces/default", body)).json
        assert (refused["code"], refused["details"]["kind"]) in ((409, "namespaces"), (403, "namespaces"))
        bad = {"metadata": {"name": "x"}, "spec": {"finalizers": ["not qualified"]}}
        causes = (await call("POST", "/api/v1/namespaces", bad)).json["details"]["causes"]
        assert [c["field"] for c in causes] == ["spec.finalizers"] * 2
