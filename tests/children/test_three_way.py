"""The three-way merge: what was applied and is no longer desired goes, what others set stays."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.patch.merge_patch import apply_merge_patch
from opsdk.children.set_identity import APPLIED, decode_applied
from opsdk.children.three_way import adoption_patch, applied_object, three_way_patch

data = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123"), max_size=4)


def config(values: dict[str, str]) -> dict[str, Any]:
    """A desired ConfigMap."""
    metadata = {"name": "a", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": values}


def stored(tree: dict[str, Any]) -> dict[str, Any]:
    """The object as a server has it."""
    tree = copy.deepcopy(tree)
    tree["metadata"] |= {"resourceVersion": "7", "uid": "u"}
    return tree


@given(data, data, data)
def test_the_merge_law(before: dict[str, str], after: dict[str, str], foreign: dict[str, str]) -> None:
    """Afterwards: the desired values, and the foreign ones whose fields were never applied. Again: no patch."""
    live = stored(applied_object(config(before)))
    live["data"] = {**foreign, **before} if foreign else live["data"]
    desired = config(after)
    patch = three_way_patch(desired, live)
    result = apply_merge_patch(live, patch) if patch is not None else live
    expected = {name: value for name, value in live["data"].items() if name not in before} | after
    assert (result.get("data") or {}) == expected
    assert three_way_patch(desired, result) is None


def test_lists_merge_by_their_keys() -> None:
    """A container that another program added stays; a removed one goes; a quantity's spelling is not a difference."""

    def deployment(*containers: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": "a", "namespace": "default"}
        spec = {"template": {"spec": {"containers": list(containers)}}}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}

    web = {"name": "web", "image": "web:1", "resources": {"limits": {"cpu": "1000m"}}}
    live = stored(applied_object(deployment(web, {"name": "old", "image": "old:1"})))
    containers = live["spec"]["template"]["spec"]["containers"]
    containers[0]["resources"]["limits"]["cpu"] = "1"
    containers.append({"name": "sidecar", "image": "mesh:1"})
    patch = three_way_patch(deployment(web), live)
    assert patch is not None
    result = apply_merge_patch(live, patch)
    names = [container["name"] for container in result["spec"]["template"]["spec"]["containers"]]
    assert names == ["web", "sidecar"]
    result["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1"
    assert three_way_patch(deployment(web), result) is None
    assert patch["metadata"]["resourceVersion"] == "7"


def test_adoption_ends_client_side_apply() -> None:
    """The annotation, the fields that only it records, and the manager that wrote it go; others stay."""
    live = stored(applied_object(config({"a": "1", "b": "1"})))
    owned = {"f:metadata": {"f:annotations": {f"f:{APPLIED}": {}}}, "f:data": {"f:a": {}, "f:b": {}}}
    entry = {"manager": "rancher", "operation": "Update", "apiVersion": "v1", "fieldsV1": owned}
    other = {"manager": "user", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:data": {"f:c": {}}}}
    live["metadata"]["managedFields"] = [entry, other]
    live["data"]["c"] = "3"
    patch = adoption_patch(config({"a": "1"}), live)
    result = apply_merge_patch(live, patch)
    assert result["data"] == {"a": "1", "c": "3"}
    assert APPLIED not in result["metadata"].get("annotations", {})
    assert result["metadata"]["managedFields"] == [other]
    assert adoption_patch(config({"a": "1"}), result) is None


def test_a_custom_resource_without_schema() -> None:
    """Objects merge by field and lists are replaced, as by a JSON merge patch."""
    tree = {"apiVersion": "demo.dev/v1", "kind": "Site", "metadata": {"name": "a"}, "spec": {"a": 1, "list": [1, 2]}}
    live = stored(applied_object(tree))
    live["spec"]["other"] = True
    desired = {**tree, "spec": {"list": [2]}}
    patch = three_way_patch(desired, live)
    assert patch is not None
    assert patch["spec"] == {"a": None, "list": [2]}


def test_what_go_writes_for_unset_fields_removes_nothing() -> None:
    """Bad input: empty objects, nulls and a status in the annotation are not fields that were applied."""
    desired = config({"a": "1"})
    original = {**desired, "status": {}, "metadata": {**desired["metadata"], "creationTimestamp": None, "labels": {}}}
    live = stored(applied_object(original))
    live["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"x": "y"}}
    patch = three_way_patch(desired, live)
    assert patch is not None
    assert patch.keys() == {"metadata"}
    assert patch["metadata"].keys() == {"annotations", "resourceVersion"}
    record = decode_applied(patch["metadata"]["annotations"][APPLIED])
    assert record == {**desired, "metadata": {**desired["metadata"], "annotations": {}}}
