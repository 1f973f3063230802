"""Create, read, update, patch, apply and delete, as clients see them."""

from __future__ import annotations

import asyncio

import pytest
from server_caller import APPLY, MERGE, Caller

from envtest.environment import Environment
from opsdk.apimachinery.object import Unstructured
from opsdk.cluster.cluster import Cluster

CM = "/api/v1/namespaces/default/configmaps"


async def test_create_read_update_delete() -> None:
    """Create is a 201, get returns the object, update gives a new version, delete a Status, then a 404."""
    async with Environment() as env:
        call = Caller(env)
        response = await call("POST", CM, {"metadata": {"name": "a"}, "data": {"x": "1"}})
        assert response.status == 201
        assert response.json["metadata"]["namespace"] == "default"
        assert (await call("GET", f"{CM}/a")).json == response.json
        changed = await call("PUT", f"{CM}/a", {**response.json, "data": {"x": "2"}})
        assert int(changed.json["metadata"]["resourceVersion"]) > int(response.json["metadata"]["resourceVersion"])
        stale = await call("PUT", f"{CM}/a", {**response.json, "data": {"x": "3"}})
        assert (stale.status, stale.json["reason"]) == (409, "Conflict")
        gone = await call("DELETE", f"{CM}/a")
        assert (gone.status, gone.json["status"]) == (200, "Success")
        missing = await call("GET", f"{CM}/a")
        assert (missing.status, missing.json["message"]) == (404, 'configmaps "a" not found')


async def test_a_write_that_changes_nothing_keeps_the_version() -> None:
    """PUT, patch and apply without a change keep the resourceVersion."""
    async with Environment() as env:
        call = Caller(env)
        stored = (await call("POST", CM, {"metadata": {"name": "a"}, "data": {"x": "1"}})).json
        version = stored["metadata"]["resourceVersion"]
        for answer in (
            await call("PUT", f"{CM}/a", stored),
            await call("PATCH", f"{CM}/a", {"data": {"x": "1"}}, content_type=MERGE),
        ):
            assert answer.json["metadata"]["resourceVersion"] == version


async def test_concurrent_patches_are_all_applied() -> None:
    """The server retries conflicting patches itself: no client sees a 409."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CM, {"metadata": {"name": "a"}})
        patches = [call("PATCH", f"{CM}/a", {"data": {f"k{n}": "v"}}, content_type=MERGE) for n in range(10)]
        assert {a.status for a in await asyncio.gather(*patches)} == {200}
        assert len((await call("GET", f"{CM}/a")).json["data"]) == 10


@pytest.mark.behaviour(142, better="The test server is a complete API server, used through the production client.")
async def test_a_dry_run_changes_nothing() -> None:
    """A dry run returns the result, but stores nothing and uses no revision."""
    async with Environment() as env:
        call = Caller(env)
        before = env.plane.storage.current_rv
        answer = await call("POST", f"{CM}?dryRun=All", {"metadata": {"name": "a"}})
        assert answer.status == 201
        assert (await call("GET", f"{CM}/a")).status == 404
        assert env.plane.storage.current_rv == before


async def test_a_dry_run_create_may_have_a_resource_version() -> None:
    """A create with resourceVersion fails unless it is a dry run."""
    async with Environment() as env:
        call = Caller(env)
        body = {"metadata": {"name": "a", "resourceVersion": "7"}}
        refused = await call("POST", CM, body)
        assert (refused.status, refused.json["message"]) == (
            500,
            "resourceVersion should not be set on objects to be created",
        )
        accepted = await call("POST", f"{CM}?dryRun=All", body)
        assert (accepted.status, accepted.json["metadata"]["resourceVersion"]) == (201, "7")


@pytest.mark.behaviour(142, better="The test server is a complete API server, used through the production client.")
async def test_finalizers_hold_a_deleted_object() -> None:
    """DELETE marks the object, no new finalizer is accepted, and removing the last one deletes it."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CM, {"metadata": {"name": "a", "finalizers": ["example.com/x"]}})
        marked = await call("DELETE", f"{CM}/a")
        assert marked.json["metadata"]["deletionGracePeriodSeconds"] == 0
        more = {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}}
        assert (await call("PATCH", f"{CM}/a", more, content_type=MERGE)).status == 422
        assert (await call("PATCH", f"{CM}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)).status == 200
        assert (await call("GET", f"{CM}/a")).status == 404


async def test_nothing_is_created_in_a_missing_namespace() -> None:
    """A create in a missing namespace is a 404 that names the namespace."""
    async with Environment() as env:
        answer = await Caller(env)("POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "a"}})
        assert (answer.status, answer.json["message"]) == (404, 'namespaces "nowhere" not found')


@pytest.mark.behaviour(142, better="The test server is a complete API server, used through the production client.")
async def test_generated_names() -> None:
    """GenerateName gives a fresh name below 64 characters."""
    async with Environment() as env:
        call = Caller(env)
        stored = [(await call("POST", CM, {"metadata": {"generateName": "x" * 70}})).json for _ in range(3)]
        names = {m["metadata"]["name"] for m in stored}
        assert len(names) == 3
        assert all(len(n) == 63 for n in names)


@pytest.mark.behaviour(142, better="The test server is a complete API server, used through the production client.")
async def test_apply_owns_and_conflicts() -> None:
    """A second manager changes an applied field only with force, and then is its only manager."""
    async with Environment() as env:
        call = Caller(env)

        def config(value: str) -> dict[str, object]:
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": value}}

        url = f"{CM}/a?fieldManager="
        assert (await call("PATCH", f"{url}one", config("1"), content_type=APPLY)).status == 201
        refused = await call("PATCH", f"{url}two", config("2"), content_type=APPLY)
        assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (409, ".data.x")
        forced = await call("PATCH", f"{url}two&force=true", config("2"), content_type=APPLY)
        assert [m["manager"] for m in forced.json["metadata"]["managedFields"]] == ["two"]


@pytest.mark.behaviour(18)
async def test_unknown_fields_warn_or_are_refused() -> None:
    """Unknown fields are dropped with a warning; with fieldValidation=Strict they are a 400."""
    async with Environment() as env:
        call = Caller(env)
        body = {"metadata": {"name": "a"}, "colour": "red"}
        warned = await call("POST", f"{CM}?dryRun=All", body)
        assert warned.headers["warning"] == '299 - "unknown field \\"colour\\""'
        assert "colour" not in warned.json
        assert (await call("POST", f"{CM}?fieldValidation=Strict", body)).status == 400


@pytest.mark.behaviour(142, better="The test server is a complete API server, used through the production client.")
async def test_status_and_spec_have_their_own_doors() -> None:
    """The main resource ignores status, the status resource ignores spec; only spec changes the generation."""
    async with Environment() as env:
        call = Caller(env)
        url = "/apis/apps/v1/namespaces/default/deployments"
        pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pod}
        stored = (await call("POST", url, {"metadata": {"name": "d"}, "spec": spec, "status": {"replicas": 9}})).json
        assert (stored["metadata"]["generation"], stored["status"]) == (1, {})
        patch = {"spec": {"replicas": 5}, "status": {"replicas": 3}}
        status = (await call("PATCH", f"{url}/d/status", patch, content_type=MERGE)).json
        assert (status["spec"]["replicas"], status["status"]["replicas"], status["metadata"]["generation"]) == (1, 3, 1)
        scaled = (await call("PATCH", f"{url}/d/scale", {"spec": {"replicas": 4}}, content_type=MERGE)).json
        assert scaled["spec"] == {"replicas": 4}
        assert (await call("GET", f"{url}/d")).json["metadata"]["generation"] == 2


async def test_anonymous_users_see_health_only() -> None:
    """Without credentials, only health and version are readable; with wrong ones, nothing is."""
    async with Environment() as env:
        call = Caller(env)
        assert (await call("GET", "/livez", authorization="")).raw == b"ok"
        assert (await call("GET", "/api/v1/pods", authorization="")).status == 403
        assert (await call("GET", "/livez", authorization="Bearer wrong")).status == 401


async def test_both_event_apis_see_the_same_objects() -> None:
    """An Event that is written through one API group can be read through the other."""
    async with Environment() as env:
        call = Caller(env)
        event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "message": "hi", "reason": "R"}
        assert (await call("POST", "/api/v1/namespaces/default/events", event)).status == 201
        stored = (await call("GET", "/apis/events.k8s.io/v1/namespaces/default/events/e")).json
        assert (stored["note"], stored["apiVersion"]) == ("hi", "events.k8s.io/v1")


async def test_services_get_addresses_of_their_own() -> None:
    """Cluster IPs come from the range, are unique, and are free again after a deletion."""
    async with Environment() as env:
        call = Caller(env)
        url = "/api/v1/namespaces/default/services"

        def service(name: str, **spec: object) -> dict[str, object]:
            return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}

        one, two = [(await call("POST", url, service(n))).json["spec"]["clusterIP"] for n in ("one", "two")]
        assert one != two
        assert (await call("POST", url, service("three", clusterIP=one))).status == 422
        await call("DELETE", f"{url}/one")
        assert (await call("POST", url, service("three", clusterIP=one))).status == 201


async def test_a_page_of_selected_objects_does_not_look_ahead() -> None:
    """A page has a continue token if unread objects follow, even if none of them is selected."""
    async with Environment() as env:
        call = Caller(env)
        for name, kind in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")):
            await call("POST", CM, {"metadata": {"name": name, "labels": {"kind": kind}}})
        for kind, names, more in (("x", ["a", "c"], True), ("y", ["b", "d"], False)):
            page = (await call("GET", f"{CM}?limit=2&labelSelector=kind={kind}")).json
            assert [item["metadata"]["name"] for item in page["items"]] == names
            assert bool(page["metadata"].get("continue")) is more
        token = (await call("GET", f"{CM}?limit=2&labelSelector=kind=x")).json["metadata"]["continue"]
        last = (await call("GET", f"{CM}?limit=2&labelSelector=kind=x&continue={token}")).json
        assert (last["items"], last["metadata"].get("continue")) == ([], None)


async def test_a_collection_is_deleted_as_of_the_revision_that_is_given() -> None:
    """A collection is deleted as of the given revision; a future one times out; names are quoted as in Go."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CM, {"metadata": {"name": "a"}})
        before = await call("DELETE", f"{CM}?resourceVersion=1")
        assert (before.status, before.json["items"]) == (200, [])
        assert (await call("GET", f"{CM}/a")).status == 200
        ahead = await call("DELETE", f"{CM}?resourceVersion=99999")
        assert (ahead.status, ahead.json["reason"]) == (504, "Timeout")
        missing = await call("GET", f"{CM}/a\x00\x80")
        assert missing.json["message"] == r'configmaps "a\x00\u0080" not found'


async def test_a_strategic_patch_does_not_change_what_an_object_is() -> None:
    """A strategic merge patch cannot change apiVersion and kind."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CM, {"metadata": {"name": "a"}})
        patch = {"apiVersion": "v9", "kind": "Other", "data": {"x": "y"}}
        changed = await call("PATCH", f"{CM}/a", patch, content_type="application/strategic-merge-patch+json")
        assert (changed.json["apiVersion"], changed.json["kind"], changed.json["data"]) == (
            "v1",
            "ConfigMap",
            {"x": "y"},
        )


async def test_an_apply_with_another_spelling_changes_nothing() -> None:
    """1024Mi over 1Gi is the same value: no new revision, whatever time has passed."""
    async with Environment() as env, Cluster(env.config) as cluster:
        versions = []
        for memory in ("1Gi", "1024Mi", "1024Mi", "1Gi"):
            container = {"name": "c", "image": "i", "resources": {"limits": {"memory": memory}}}
            tree = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a", "namespace": "default"},
                "spec": {"containers": [container]},
            }
            pod = Unstructured.from_tree(tree)
            await cluster.uncached.apply(pod, field_owner="me", force=True)
            versions.append(pod.metadata.resource_version)
            await asyncio.sleep(5)
        assert len(set(versions)) == 1
