"""Status updates and metadata: most kinds accept labels, some do not."""

from __future__ import annotations

import pytest
from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

LEVEL = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
HELD = {"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
WISH = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SCALED = {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
CHANGED = {"labels": {"mine": "x"}, "annotations": {"mine": "x"}}


async def changed(url: str, spec: JsonObject, status: JsonObject) -> JsonObject:
    """Metadata of a new object after its status was written together with some metadata."""
    async with Environment() as env:
        call = Caller(env)
        response = await call("POST", url, {"metadata": {"name": "a"}, "spec": spec})
        assert response.status == 201, response.json
        body = {"metadata": CHANGED, "status": status}
        result = await call("PATCH", f"{url}/a/status", body, content_type=MERGE)
        assert result.status == 200, result.json
        metadata: JsonObject = result.json["metadata"]
        return metadata


@pytest.mark.parametrize(
    ("url", "spec", "status"),
    [
        ("/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", LEVEL, {"conditions": [{"type": "A"}]}),
        ("/apis/storage.k8s.io/v1/volumeattachments", HELD, {"attached": True}),
        ("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", WISH, {"allocation": {"devices": {}}}),
    ],
)
async def test_some_status_updates_ignore_metadata(url: str, spec: JsonObject, status: JsonObject) -> None:
    """Status updates of these kinds drop labels and annotations, and manage no metadata."""
    meta = await changed(url, spec, status)
    assert not {"labels", "annotations"} & meta.keys()
    assert all("f:metadata" not in owner["fieldsV1"] for owner in meta["managedFields"])


@pytest.mark.parametrize(
    ("url", "spec", "kept"),
    [
        (
            "/apis/apps/v1/namespaces/default/deployments",
            {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
            {"annotations"},
        ),
        ("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", SCALED, {"annotations", "labels"}),
    ],
)
async def test_most_status_updates_write_metadata(url: str, spec: JsonObject, kept: set[str]) -> None:
    """A status update's manager manages the metadata that the update may change, and no other."""
    meta = await changed(url, spec, {"observedGeneration": 1})
    assert {key for key in ("annotations", "labels") if "mine" in meta.get(key, {})} == kept
    [owner] = [entry for entry in meta["managedFields"] if entry.get("subresource") == "status"]
    assert {key[2:] for key in owner["fieldsV1"]["f:metadata"]} == kept
