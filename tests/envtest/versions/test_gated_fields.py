"""Fields whose feature gate is off by default are dropped, unless the object uses the gate already."""

from __future__ import annotations

import pytest
from server_caller import Caller

from envtest.codec.gated_fields import gated_type
from envtest.data.gates import gated_fields
from envtest.data.schemas import types
from envtest.data.versions import DEFAULT, VERSIONS
from envtest.environment import Environment
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.structured_merge.value import JsonObject
from tests.envtest.versions.test_round_trip import Bodies, stored_kinds
from tests.envtest.versions.whole_objects import WholeObjects

OTHERS = [version for version in VERSIONS if version != DEFAULT]


@pytest.mark.parametrize("version", OTHERS)
def test_gated_fields_are_dropped_everywhere(version: str) -> None:
    """An object with every field loses the gated ones alone, and keeps them if the old object uses their gates."""
    gated = {name: fields.keys() for name, fields in gated_fields(version).items()}
    resources = set()
    for row in stored_kinds(version):
        name = Bodies(version, row).name
        whole, without = WholeObjects(version).of(name), WholeObjects(version, without=gated).of(name)
        kind = gated_type(name, version)
        assert (kind is not None) == (whole != without)
        if kind is not None:
            resources.add(row.info.resource)
            obj = copy_tree(whole)
            kind.drop(obj, whole)
            assert obj == whole
            kind.drop(obj, None)
            assert obj == without
    assert "pods" in resources


@pytest.mark.parametrize("version", OTHERS)
def test_gated_fields_exist(version: str) -> None:
    """Each gated field is one that its type has in the version, and lacks in the default one."""
    for name, fields in gated_fields(version).items():
        default = (types().schema(name) or {}).get("properties", {})
        assert fields.keys() <= types(version)[name]["properties"].keys() - default.keys()


def test_the_default_version_has_no_cost() -> None:
    """In the default version no type has gated fields."""
    assert all(gated_type(name, DEFAULT) is None for name in types())


async def test_the_server_drops_them() -> None:
    """A field of an alpha gate is gone after a create; other fields of its type stay."""
    pod: JsonObject = {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "emptyDir": {"mode": 448, "medium": "Memory"}}],
        "evictionResponders": [{"name": "example.com/a", "priority": 1}],
    }
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}, "template": {"spec": pod}}
    async with Environment(kubernetes="1.37") as env:
        created = await Caller(env)("POST", "/api/v1/namespaces/default/podtemplates", body)
        assert created.status == 201, created.raw
        stored = created.json["template"]["spec"]
        assert stored["volumes"] == [{"name": "v", "emptyDir": {"medium": "Memory"}}]
        assert "evictionResponders" not in stored
