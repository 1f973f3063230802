"""Tables for kubectl."""

from __future__ import annotations

from typing import Any

import pytest
from server_caller import Caller

import envtest

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
MAPS = "/api/v1/namespaces/default/configmaps"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


async def table(env: envtest.Environment, path: str) -> Any:
    """A path as a table."""
    answer = await Caller(env)("GET", path, accept=TABLE)
    assert answer.status == 200
    return answer.json


async def fill(env: envtest.Environment, *names: str) -> None:
    """Make maps of these names."""
    for name in names:
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": name}}
        await Caller(env)("POST", MAPS, tree)


async def test_tables_of_lists_say_how_to_go_on() -> None:
    """A table of a list has its revision, continue token and remaining count."""
    async with envtest.Environment() as env:
        await fill(env, "a", "b", "c")
        first = await table(env, f"{MAPS}?limit=2")
        assert (first["kind"], first["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert first["metadata"]["remainingItemCount"] == 1
        assert [row["cells"][:2] for row in first["rows"]] == [["a", 1], ["b", 1]]
        rest = await table(env, f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
        assert [row["cells"][0] for row in rest["rows"]] == ["c"]
        assert rest["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


@pytest.mark.parametrize(("include", "kind"), [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata")])
async def test_rows_come_with_the_metadata_of_their_objects(include: str, kind: str) -> None:
    """A table has the metadata of each row unless ``includeObject`` asks for something else."""
    async with envtest.Environment() as env:
        await fill(env, "a")
        (row,) = (await table(env, f"{MAPS}?includeObject={include}"))["rows"]
        assert row["object"]["kind"] == kind
        assert row["object"]["metadata"]["name"] == "a"
        assert "data" not in row["object"]


async def test_rows_come_with_objects_or_without() -> None:
    """The parameter includeObject decides what a row holds; unknown values are a 400."""
    async with envtest.Environment() as env:
        await fill(env, "a")
        (whole,) = (await table(env, f"{MAPS}?includeObject=Object"))["rows"]
        assert whole["object"]["data"] == {"k": "a"}
        (bare,) = (await table(env, f"{MAPS}?includeObject=None"))["rows"]
        assert bare["object"] is None
        assert (await Caller(env)("GET", f"{MAPS}?includeObject=All", accept=TABLE)).status == 400


async def test_watched_tables_have_one_head() -> None:
    """A table watch sends columns only with the first event."""
    async with envtest.Environment() as env:
        await fill(env, "a")
        async with Caller(env).watch(f"{MAPS}?watch=1&timeoutSeconds=5", accept=TABLE) as events:
            first = await events.get()
            await fill(env, "b")
            second = await events.get()
        assert [first["type"], second["type"]] == ["ADDED", "ADDED"]
        assert [c["name"] for c in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert not second["object"]["columnDefinitions"]
        assert second["object"]["rows"][0]["cells"][0] == "b"


async def test_errors_are_statuses() -> None:
    """An error of a table request is a Status."""
    async with envtest.Environment() as env:
        answer = await Caller(env)("GET", f"{MAPS}/none", accept=TABLE)
        assert (answer.status, answer.json["kind"]) == (404, "Status")


async def test_scales_are_tables_too() -> None:
    """Scales have their own table columns."""
    async with envtest.Environment() as env:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        tree = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template},
        }
        path = "/apis/apps/v1/namespaces/default/deployments"
        await Caller(env)("POST", path, tree)
        rows = await table(env, f"{path}/d/scale")
        assert [c["name"] for c in rows["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
        assert rows["rows"][0]["cells"][:3] == ["d", 3, 0]


@pytest.mark.parametrize(("controllers", "word"), [("none", "Unhealthy"), ("cluster", "Healthy")])
async def test_components_are_as_well_as_something_does_their_work(controllers: str, word: str) -> None:
    """The etcd component is always healthy; the others are healthy only if they are simulated."""
    async with envtest.Environment(controllers=controllers) as env:
        rows = (await table(env, "/api/v1/componentstatuses"))["rows"]
        assert [row["cells"][:2] for row in rows] == [
            ["etcd-0", "Healthy"],
            ["controller-manager", word],
            ["scheduler", word],
        ]
        chosen = await table(env, "/api/v1/componentstatuses?fieldSelector=metadata.name%3Detcd-0")
        assert [row["cells"] for row in chosen["rows"]] == [["etcd-0", "Healthy", "ok", ""]]
        assert (await Caller(env)("GET", "/api/v1/componentstatuses/scheduler")).json["conditions"]
        assert (await Caller(env)("GET", "/api/v1/componentstatuses/none")).status == 404


async def test_metadata_of_components_is_no_table() -> None:
    """Component statuses can be listed as metadata only."""
    async with envtest.Environment() as env:
        answer = await Caller(env)("GET", "/api/v1/componentstatuses", accept=METADATA)
        assert answer.json["items"][0]["metadata"]["name"] == "etcd-0"
