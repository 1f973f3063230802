"""Field managers as a Scale shows them."""

from __future__ import annotations

from opsdk.apiserver.fieldmanager.scale_handler import owners_of_scale, owners_of_scaled
from opsdk.structured_merge.value import JsonObject

PATH = ("f:spec", "f:replicas")
REPLICAS = {"apps/v1": PATH}


def entry(manager: str, fields: JsonObject, **more: str) -> JsonObject:
    """An entry of ``managedFields``."""
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "apps/v1",
        **more,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


OWNER = entry("owner", {"f:spec": {"f:paused": {}, "f:replicas": {}}}, time="2026-01-01T00:00:00Z")
ONLY = {"f:spec": {"f:replicas": {}}}


def test_a_scale_shows_the_owners_of_replicas() -> None:
    """A Scale shows only the managers of replicas, with the field path of Scale."""
    owners = owners_of_scale([OWNER, entry("other", {"f:spec": {"f:paused": {}}})], REPLICAS)
    assert [(one["manager"], one["apiVersion"], one["fieldsV1"]) for one in owners] == [
        ("owner", "autoscaling/v1", ONLY)
    ]


def test_scaling_takes_replicas() -> None:
    """The new manager of replicas has an entry without a time; the old one keeps its other fields."""
    scaler = {
        **entry("scaler", ONLY, time="2026-01-01T00:00:09Z"),
        "subresource": "scale",
        "apiVersion": "autoscaling/v1",
    }
    assert owners_of_scaled([OWNER], [scaler], REPLICAS, "apps/v1") == [
        {**entry("scaler", ONLY), "subresource": "scale"},
        entry("owner", {"f:spec": {"f:paused": {}}}, time="2026-01-01T00:00:00Z"),
    ]
