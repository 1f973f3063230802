"""The official client, blocking."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

from opsdk.structured_merge.value import JsonObject

pytestmark = pytest.mark.e2e
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


@pytest.fixture
def api(kubeconfig: str) -> Iterator[client.ApiClient]:
    """A client of the server."""
    with config.new_client_from_config(kubeconfig) as created:
        yield created


def deployment(name: str) -> JsonObject:
    """One to create."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def eventually(look: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + 15
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_patches_of_every_kind(api: client.ApiClient, namespace: str) -> None:
    """A dict is a strategic merge, a list a JSON patch, others by their content type."""
    v1 = client.CoreV1Api(api)
    v1.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata={"name": "a"}, data={"k": "v"}))
    assert v1.patch_namespaced_config_map("a", namespace, {"data": {"z": "1"}}).data == {"k": "v", "z": "1"}
    added = [{"op": "add", "path": "/data/y", "value": "2"}]
    assert v1.patch_namespaced_config_map("a", namespace, added).data["y"] == "2"
    gone = {"data": {"y": None, "z": None}}
    assert v1.patch_namespaced_config_map("a", namespace, gone, _content_type=MERGE).data == {"k": "v"}
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"q": "1"}}
    created = v1.patch_namespaced_config_map("a", namespace, applied, field_manager="m", _content_type=APPLY)
    assert created.data == {"k": "v", "q": "1"}
    other = {**applied, "data": {"q": "2"}}
    with pytest.raises(ApiException) as refused:
        v1.patch_namespaced_config_map("a", namespace, other, field_manager="n", _content_type=APPLY)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")


def test_lists_in_pages_and_raw(api: client.ApiClient, namespace: str) -> None:
    """``limit`` and ``_continue``; ``_preload_content=False`` gives the stream as it comes."""
    v1 = client.CoreV1Api(api)
    for name in "abc":
        v1.create_namespaced_config_map(namespace, {"metadata": {"name": name, "labels": {"paged": "yes"}}})
    names, more = [], ""
    while more is not None:
        page = v1.list_namespaced_config_map(namespace, limit=2, _continue=more, label_selector="paged=yes")
        names += [item.metadata.name for item in page.items]
        more = page.metadata._continue or None
    assert names == ["a", "b", "c"]
    raw = v1.list_namespaced_config_map(namespace, label_selector="paged", _preload_content=False)
    assert [item["metadata"]["name"] for item in json.loads(raw.data)["items"]] == names
    stream = v1.list_namespaced_config_map(namespace, watch=True, timeout_seconds=1, _preload_content=False)
    events = [json.loads(line) for line in b"".join(stream.stream()).splitlines()]
    assert {"a", "b", "c"} <= {event["object"]["metadata"]["name"] for event in events if event["type"] == "ADDED"}


def test_watches_resume_and_expire(api: client.ApiClient, namespace: str, served: Any) -> None:
    """A watch resumes at its version; one from before the history gets 410, and lists again."""
    v1 = client.CoreV1Api(api)
    first = v1.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}}).metadata.resource_version
    v1.create_namespaced_config_map(namespace, {"metadata": {"name": "b"}})
    watcher = watch.Watch()
    for event in watcher.stream(v1.list_namespaced_config_map, namespace, resource_version=first):
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "b")
        watcher.stop()
    served.call(lambda env: env.faults.compact())
    with pytest.raises(ApiException) as old:
        list(watch.Watch().stream(v1.list_namespaced_config_map, namespace, resource_version=first, timeout_seconds=2))
    assert old.value.status == 410
    fresh = [
        e["object"].metadata.name
        for e in watch.Watch().stream(v1.list_namespaced_config_map, namespace, timeout_seconds=1)
    ]
    assert {"a", "b"} <= set(fresh)


def test_workloads_scale_and_log(api: client.ApiClient, namespace: str) -> None:
    """Deployments with their scale and status; logs, evictions and tokens of what runs."""
    v1, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    apps.create_namespaced_deployment(namespace, deployment("d"))
    eventually(lambda: apps.read_namespaced_deployment_status("d", namespace).status.ready_replicas == 1)
    apps.patch_namespaced_deployment_scale("d", namespace, {"spec": {"replicas": 3}})
    assert apps.read_namespaced_deployment_scale("d", namespace).spec.replicas == 3
    eventually(lambda: apps.read_namespaced_deployment("d", namespace).status.available_replicas == 3)
    name = v1.list_namespaced_pod(namespace, label_selector="app=d").items[0].metadata.name
    assert v1.read_namespaced_pod_log(name, namespace, tail_lines=1) == "c\n"
    v1.create_namespaced_pod_eviction(name, namespace, client.V1Eviction(metadata={"name": name}))
    v1.create_namespaced_service_account(namespace, {"metadata": {"name": "robot"}})
    token_request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
    assert v1.create_namespaced_service_account_token("robot", namespace, token_request).status.token.count(".") == 2


def test_typed_times_come_back(api: client.ApiClient, namespace: str) -> None:
    """Microseconds survive the way there and back."""
    now = datetime.now(UTC).replace(microsecond=123456)
    lease = client.V1Lease(metadata={"name": "l"}, spec=client.V1LeaseSpec(holder_identity="me", renew_time=now))
    created = client.CoordinationV1Api(api).create_namespaced_lease(namespace, lease)
    assert created.spec.renew_time == now


def test_custom_objects(api: client.ApiClient, namespace: str, definition: Any) -> None:
    """Definitions, their objects, status and scale."""
    kinds, toys = client.ApiextensionsV1Api(api), client.CustomObjectsApi(api)
    kinds.create_custom_resource_definition(definition("kubernetes.io.test"))
    where = ("kubernetes.io.test", "v1", namespace, "toys")
    eventually(lambda: kinds.read_custom_resource_definition("toys.kubernetes.io.test").status.conditions is not None)
    body = {"apiVersion": "kubernetes.io.test/v1", "kind": "Toy", "metadata": {"name": "t"}, "spec": {"replicas": 1}}
    toys.create_namespaced_custom_object(*where, body)
    assert toys.patch_namespaced_custom_object(*where, "t", {"spec": {"replicas": 2}})["spec"]["replicas"] == 2
    assert toys.patch_namespaced_custom_object_status(*where, "t", {"status": {"x": 1}})["status"] == {"x": 1}
    assert toys.patch_namespaced_custom_object_scale(*where, "t", {"spec": {"replicas": 4}})["spec"]["replicas"] == 4
    assert len(toys.list_cluster_custom_object("kubernetes.io.test", "v1", "toys")["items"]) == 1
    assert toys.delete_namespaced_custom_object(*where, "t")["status"] == "Success"


def test_the_dynamic_client(api: client.ApiClient, namespace: str) -> None:
    """Discovery, every verb, server-side apply and watches without types."""
    result = dynamic.DynamicClient(api).resources.get(api_version="apps/v1", kind="Deployment")
    result.create(body=deployment("d"), namespace=namespace)
    result.patch(body={"spec": {"replicas": 2}}, name="d", namespace=namespace, content_type=MERGE)
    applied = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"paused": True}}
    result.server_side_apply(body=applied, name="d", namespace=namespace, field_manager="m")
    got = result.get(name="d", namespace=namespace)
    assert (got.spec.replicas, got.spec.paused) == (2, True)
    assert next(iter(result.watch(namespace=namespace, timeout=1)))["object"].metadata.name == "d"
    result.delete(name="d", namespace=namespace)


def test_lists_of_manifests(api: client.ApiClient, namespace: str) -> None:
    """``utils.create_from_dict`` creates a list of manifests, and reports objects that exist."""
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": n, "namespace": namespace}} for n in "ab"]
    manifest = {"apiVersion": "v1", "kind": "List", "items": items}
    utils.create_from_dict(api, manifest)
    with pytest.raises(utils.FailToCreateError) as again:
        utils.create_from_dict(api, manifest)
    assert [e.status for e in again.value.api_exceptions] == [409, 409]


def test_the_clients_leader_election_works(api: client.ApiClient, kubeconfig: str, namespace: str) -> None:
    """The client's leader election keeps its lock in a ConfigMap's annotations until its writes fail."""
    config.load_kube_config(kubeconfig)
    leads, stopped, broken = threading.Event(), threading.Event(), threading.Event()

    class Lock(ConfigMapLock):
        def update(self, *arguments: Any) -> bool:
            return not broken.is_set() and super().update(*arguments)

    expected = electionconfig.Config(
        Lock("lock", namespace, "me"),
        lease_duration=3,
        renew_deadline=2,
        retry_period=1.1,
        onstarted_leading=leads.set,
        onstopped_leading=stopped.set,
    )
    election = threading.Thread(target=leaderelection.LeaderElection(expected).run, daemon=True)
    election.start()
    assert leads.wait(10)
    annotations = client.CoreV1Api(api).read_namespaced_config_map("lock", namespace).metadata.annotations
    assert json.loads(annotations["control-plane.alpha.kubernetes.io/leader"])["holderIdentity"] == "me"
    broken.set()
    election.join(10)
    assert stopped.is_set()


def test_discovery_of_the_server(served: Any, api: client.ApiClient) -> None:
    """The client reads versions, groups and resources; a slash at the end does not matter."""
    assert client.VersionApi(api).get_code().git_version.startswith(f"v{served.kubernetes}.")
    assert "apps" in [group.name for group in client.ApisApi(api).get_api_versions().groups]
    assert "pods" in [resource.name for resource in client.CoreV1Api(api).get_api_resources().resources]
    for path in ("/api/", "/apis/", "/api/v1/", "/apis/apps/v1/"):
        host = api.configuration.host
        answer = api.rest_client.request("GET", f"{host}{path}", headers={"accept": "application/json"})
        assert answer.status == 200, path


def test_writes_that_must_not_collide(api: client.ApiClient, namespace: str) -> None:
    """Stale objects, other objects of the same name, and dry runs change nothing."""
    v1 = client.CoreV1Api(api)
    first = v1.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    dry = v1.replace_namespaced_config_map("a", namespace, {"metadata": {"name": "a"}}, dry_run="All")
    assert dry.data is None
    first.data = {"k": "w"}
    v1.replace_namespaced_config_map("a", namespace, first)
    with pytest.raises(ApiException) as stale:
        v1.replace_namespaced_config_map("a", namespace, first)
    assert stale.value.status == 409
    other = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
    with pytest.raises(ApiException) as refused:
        v1.delete_namespaced_config_map("a", namespace, body=other)
    assert refused.value.status == 409
    maps = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
    odd, strict = {"metadata": {"name": "b"}, "dataa": {}}, [("fieldValidation", "Strict")]
    with pytest.raises(ApiException) as unknown:
        maps.create(body=odd, namespace=namespace, query_params=strict)
    assert 'unknown field "dataa"' in json.loads(unknown.value.body)["message"]
    assert v1.read_namespaced_config_map("a", namespace).data == {"k": "w"}


def test_deletecollection_removes_dependents(api: client.ApiClient, namespace: str) -> None:
    """A deletecollection deletes the selected objects, and their dependents follow."""
    v1 = client.CoreV1Api(api)
    owner = v1.create_namespaced_config_map(namespace, {"metadata": {"name": "o", "labels": {"go": "yes"}}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner.metadata.uid}
    v1.create_namespaced_secret(namespace, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    v1.create_namespaced_config_map(namespace, {"metadata": {"name": "stays"}})
    v1.delete_collection_namespaced_config_map(namespace, label_selector="go=yes")
    eventually(lambda: not v1.list_namespaced_secret(namespace, field_selector="metadata.name=owned").items)
    assert "stays" in [item.metadata.name for item in v1.list_namespaced_config_map(namespace).items]


def test_subject_access_reviews_follow_role_bindings(api: client.ApiClient, namespace: str) -> None:
    """A SubjectAccessReview of another user changes when a role is bound."""
    rbac, reviews = client.RbacAuthorizationV1Api(api), client.AuthorizationV1Api(api)
    attributes = client.V1ResourceAttributes(namespace=namespace, verb="list", resource="secrets")
    review = client.V1SubjectAccessReview(
        spec=client.V1SubjectAccessReviewSpec(user="jo", resource_attributes=attributes)
    )
    assert not reviews.create_subject_access_review(review).status.allowed
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}
    rbac.create_namespaced_role(namespace, {"metadata": {"name": "r"}, "rules": [rule]})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "jo", "apiGroup": group}],
    }
    rbac.create_namespaced_role_binding(namespace, binding)
    assert reviews.create_subject_access_review(review).status.allowed
    api.set_default_header("Impersonate-User", "jo")
    assert client.CoreV1Api(api).list_namespaced_secret(namespace).items == []
    with pytest.raises(ApiException) as refused:
        client.CoreV1Api(api).list_namespaced_config_map(namespace)
    assert refused.value.status == 403


def test_manifests_from_files(api: client.ApiClient, namespace: str, tmp_path: Path) -> None:
    """``utils.create_from_yaml`` with several documents and kinds of several groups."""
    labels = "{app: x}"
    path = tmp_path / "all.yaml"
    path.write_text(f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: d}}
spec:
  selector: {{matchLabels: {labels}}}
  template: {{metadata: {{labels: {labels}}}, spec: {{containers: [{{name: c, image: i}}]}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: s}}
spec: {{selector: {labels}, ports: [{{port: 80}}]}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: p}}
spec: {{minAvailable: 1, selector: {{matchLabels: {labels}}}}}
""")
    utils.create_from_yaml(api, str(path), namespace=namespace)
    policy = client.PolicyV1Api(api)
    eventually(lambda: policy.read_namespaced_pod_disruption_budget("p", namespace).status.current_healthy == 1)
    slices = client.DiscoveryV1Api(api)
    selector = "kubernetes.io/service-name=s"

    def points() -> list[Any]:
        result = slices.list_namespaced_endpoint_slice(namespace, label_selector=selector).items
        return [point for part in result for point in part.endpoints or ()]

    eventually(lambda: [point.conditions.ready for point in points()] == [True])
