"""Storage classes, drivers, claims and volumes: validation and immutable fields."""

from __future__ import annotations

from typing import Any

import pytest
from server_caller import MERGE, Caller

from envtest.environment import Environment
from envtest.groups.core.validation.persistent_volume import validate_persistent_volume
from envtest.groups.core.validation.persistent_volume_claim import validate_claim_update
from envtest.groups.node.validation import validate_runtime, validate_runtime_update
from envtest.groups.storage.validation import (
    validate_attachment,
    validate_attachment_update,
    validate_driver,
    validate_driver_node,
    validate_driver_update,
)
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, wrong

DRIVER: JsonObject = {
    "metadata": {"name": "d.example.com"},
    "spec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "File",
        "volumeLifecycleModes": ["Persistent"],
    },
}


def claim(size: str = "1Gi", phase: str = "Pending", **spec: Any) -> JsonObject:
    """A claim with a class."""
    expected = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": "a"}
    return {
        "metadata": {"name": "c"},
        "spec": {**expected, **spec},
        "status": {"phase": phase, "capacity": {"storage": "1Gi"}},
    }


@pytest.mark.parametrize(
    ("new", "old", "fields"),
    [
        (claim(volumeName="v"), claim(), []),
        (claim(volumeName="w"), claim(volumeName="v"), ["spec"]),
        (claim("2Gi", "Bound"), claim("1Gi", "Bound"), []),
        (claim("2Gi"), claim("1Gi"), ["spec"]),
        (claim("2Gi", "Bound"), claim("3Gi", "Bound"), []),
        (claim("1Gi", "Bound"), claim("3Gi", "Bound"), ["spec.resources.requests.storage"]),
        (claim(), claim(storageClassName=None), []),
        (claim(), claim(storageClassName="b"), ["spec"]),
        (claim(phase="Bound", volumeAttributesClassName="x"), claim(phase="Bound"), []),
        (claim(volumeMode="Block"), claim(volumeMode="Filesystem"), ["spec", "volumeMode"]),
    ],
)
def test_what_of_a_claim_may_change(new: JsonObject, old: JsonObject, fields: list[str]) -> None:
    """A claim names its volume once; a bound claim may grow, and shrink back to its actual capacity."""
    assert [c.field for c in validate_claim_update(new, old)] == fields


def test_volumes_are_somewhere() -> None:
    """A volume has a size, an access mode and one source; a local volume has a node."""
    assert [c.field for c in validate_persistent_volume({"spec": {}})] == [
        "spec.accessModes",
        "spec.capacity",
        "spec.capacity",
        "spec",
    ]
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/x"}}
    assert [c.field for c in validate_persistent_volume({"spec": spec})] == ["metadata.annotations"]
    spec["nfs"] = {"path": "/x"}
    assert "spec.local" in [c.field for c in validate_persistent_volume({"spec": spec})]


def test_csi_drivers_keep_attach_required() -> None:
    """The field attachRequired of a CSIDriver is immutable, and each token audience occurs once."""
    assert not list(validate_driver(DRIVER))
    changed = {**DRIVER, "spec": {**DRIVER["spec"], "attachRequired": False}}
    assert [c.field for c in validate_driver_update(changed, DRIVER)] == ["spec.attachedRequired"]
    tokens = [{"audience": "a", "expirationSeconds": 5}, {"audience": "a"}]
    bad = {**DRIVER, "spec": {**DRIVER["spec"], "tokenRequests": tokens}}
    assert [c.reason for c in validate_driver(bad)] == ["FieldValueInvalid", "FieldValueDuplicate"]
    node = {"spec": {"drivers": [{"name": "d", "nodeID": "n"}, {"name": "d"}]}}
    assert [c.field for c in validate_driver_node(node)] == ["spec.drivers[1].nodeID", "spec.drivers[1].name"]


def test_attachments_and_runtimes_stay_what_they_are() -> None:
    """A VolumeAttachment has one source and is immutable; a RuntimeClass handler is valid and immutable."""
    both = {"inlineVolumeSpec": {}, "persistentVolumeName": "v"}
    attachment: JsonObject = {"spec": {"attacher": "d", "nodeName": "n", "source": both}}
    assert [c.reason for c in validate_attachment(attachment)] == ["FieldValueForbidden"]
    good = {"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}
    assert not list(validate_attachment_update(good, good))
    other = {"spec": {**good["spec"], "nodeName": "m"}}
    assert [c.field for c in validate_attachment_update(other, good)] == ["spec"]
    assert [c.field for c in validate_runtime({"handler": "Bad Name"})] == ["handler"]
    assert [c.field for c in validate_runtime_update({"handler": "a"}, {"handler": "b"})] == ["handler"]


DRIVERS = "storage.k8s.io/csidrivers"
NODES = "storage.k8s.io/csinodes"
ATTACHMENTS = "storage.k8s.io/volumeattachments"
CLASSES = "storage.k8s.io/storageclasses"
NEEDED = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"
HELD = {"spec": {"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}


def test_drivers_have_names_of_their_own() -> None:
    """CSI driver names ignore case, and errors are at ``name``."""
    assert wrong(DRIVERS, {"metadata": {"name": "Driver.Example.com"}}) == []
    [errors] = wrong(DRIVERS, {"metadata": {"name": "a_b"}})
    assert errors.startswith(f'name: Invalid value: "a_b": {NEEDED}')


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("nodeAllocatableUpdatePeriodSeconds", 10, []),
        ("nodeAllocatableUpdatePeriodSeconds", 9, ["Invalid value: 9: must be greater than or equal to 10"]),
        (
            "serviceAccountTokenInSecrets",
            True,
            ["Invalid value: true: may only be set when `tokenRequests` is set"],
        ),
    ],
)
def test_what_drivers_ask_for(key: str, value: object, found: list[str]) -> None:
    """``requiresRepublish`` has a minimum interval, and service account tokens need token requests."""
    tree = {"metadata": {"name": "a.b"}, "spec": {key: value}}
    assert wrong(DRIVERS, tree) == [f"spec.{key}: {text}" for text in found]


def test_a_driver_of_a_node_is_shown_as_the_server_has_it() -> None:
    """Messages print structs with Go's field names, and nil for unset pointers."""
    node = {"spec": {"drivers": [{"name": "a.b", "nodeID": "n"}]}}
    other = {"spec": {"drivers": [{"name": "a.b", "nodeID": "m"}]}}
    printed = '{"Name":"a.b","NodeID":"m","TopologyKeys":null,"Allocatable":null}'
    assert wrong(NODES, other, node) == [f"CSINodeDriver: Invalid value: {printed}: field is immutable"]
    counted = {"spec": {"drivers": [{"name": "a.b", "nodeID": "n", "allocatable": {"count": 3}}]}}
    assert wrong(NODES, counted, node) == []


def test_volume_attachments_need_a_node_and_are_immutable() -> None:
    """A VolumeAttachment needs attacher, source and node, and its spec is immutable."""
    assert wrong(ATTACHMENTS, HELD) == []
    errors = wrong(ATTACHMENTS, {"spec": {}})
    assert [text.partition(":")[0] for text in errors] == ["spec.attacher", "spec.source", "spec.nodeName"]
    assert errors[-1].startswith(f'spec.nodeName: Invalid value: "": {NEEDED}')
    printed = '{"Attacher":"a.b","Source":{"PersistentVolumeName":"v","InlineVolumeSpec":null},"NodeName":"m"}'
    moved = changed(HELD, "spec.nodeName", "m")
    assert wrong(ATTACHMENTS, moved, HELD) == [f"spec: Invalid value: {printed}: field is immutable"]


def test_classes_of_attributes_stay() -> None:
    """Driver and parameters of a VolumeAttributesClass are immutable."""
    tree = {"driverName": "a.b", "parameters": {"a": "b"}}
    errors = wrong("storage.k8s.io/volumeattributesclasses", {"driverName": "c", "parameters": {"a": "c"}}, tree)
    assert errors == [
        "driverName: Forbidden: updates to driverName are forbidden.",
        "parameters: Forbidden: updates to parameters are forbidden.",
    ]


@pytest.mark.parametrize(
    ("terms", "found"),
    [
        ([["x"]], []),
        ([["x"], ["y"]], []),
        ([["x"], ["x"]], ["allowedTopologies[1].matchLabelExpressions"]),
        ([None], ["allowedTopologies[0].matchLabelExpressions"]),
    ],
)
def test_topologies_of_classes(terms: list[list[str] | None], found: list[str]) -> None:
    """Allowed topologies of a class are distinct and not empty."""
    argument = [
        {} if values is None else {"matchLabelExpressions": [{"key": "k", "values": values}]} for values in terms
    ]
    assert wrong(CLASSES, {"provisioner": "a.b/c", "allowedTopologies": argument}) == [
        f'{path}: Duplicate value: ""' for path in found
    ]


def test_runtime_classes_need_a_handler() -> None:
    """A RuntimeClass needs a handler, a non-negative overhead, and unique tolerations."""
    assert wrong("node.k8s.io/runtimeclasses", {}) == ["handler: Required value"]
    tolerations = [{"key": "a", "operator": "Exists"}] * 2
    tree = {"handler": "h", "overhead": {"podFixed": {"cpu": -1}}, "scheduling": {"tolerations": tolerations}}
    printed = '{"Key":"a","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}'
    assert wrong("node.k8s.io/runtimeclasses", tree) == [
        'overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        f"scheduling.tolerations[1]: Duplicate value: {printed}",
    ]


async def test_a_csi_driver_gets_a_generation_on_change() -> None:
    """A CSIDriver gets a generation when one of its mutable fields changes."""
    async with Environment() as env:
        call, url = Caller(env), "/apis/storage.k8s.io/v1/csidrivers"
        stored = (await call("POST", url, {"metadata": {"name": "a.b"}})).json
        assert "generation" not in stored["metadata"]
        for expected, spec in (
            (None, {"podInfoOnMount": True}),
            (1, {"requiresRepublish": True}),
            (2, {"seLinuxMount": True}),
        ):
            result = (await call("PATCH", f"{url}/a.b", {"spec": spec}, content_type=MERGE)).json
            assert result["metadata"].get("generation") == expected


async def test_taints_of_devices_tell_their_time() -> None:
    """A device taint has the given time, or the time of the write."""
    taint = {"key": "a.b/c", "effect": "NoSchedule"}
    with_time = {**taint, "timeAdded": "2020-01-01T00:00:00Z"}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "d", "taints": [taint, with_time]}]
    tree = {"metadata": {"name": "s"}, "spec": {"driver": "a.b", "nodeName": "n", "pool": pool, "devices": devices}}
    async with Environment() as env:
        stored = (await Caller(env)("POST", "/apis/resource.k8s.io/v1/resourceslices", tree)).json
        [first, second] = stored["spec"]["devices"][0]["taints"]
        assert first["timeAdded"] == stored["metadata"]["creationTimestamp"]
        assert second == with_time
        assert stored["metadata"]["generation"] == 1
