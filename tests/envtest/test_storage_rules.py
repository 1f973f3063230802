"""Storage: what classes, drivers, claims and volumes may say, and what of it stays."""

from __future__ import annotations

from typing import Any

import pytest

from envtest.kinds.claim_rules import validate_claim_update
from envtest.kinds.persistent_rules import validate_volume
from envtest.kinds.storage_rules import (
    validate_attachment,
    validate_attachment_update,
    validate_driver,
    validate_driver_node,
    validate_driver_update,
    validate_runtime,
    validate_runtime_update,
)

Tree = dict[str, Any]
DRIVER: Tree = {
    "metadata": {"name": "d.example.com"},
    "spec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "File",
        "volumeLifecycleModes": ["Persistent"],
    },
}


def claim(size: str = "1Gi", phase: str = "Pending", **spec: Any) -> Tree:
    """A claim with a class."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": "a"}
    return {
        "metadata": {"name": "c"},
        "spec": {**wanted, **spec},
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
def test_what_of_a_claim_may_change(new: Tree, old: Tree, fields: list[str]) -> None:
    """A volume is named once, bound claims grow and come back as far as they are not larger yet."""
    assert [c.field for c in validate_claim_update(new, old)] == fields


def test_volumes_are_somewhere() -> None:
    """A volume has a size, a way to be used, and one place; a local one a node."""
    assert [c.field for c in validate_volume({"spec": {}})] == [
        "spec.accessModes",
        "spec.capacity",
        "spec.capacity",
        "spec",
    ]
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/x"}}
    assert [c.field for c in validate_volume({"spec": spec})] == ["metadata.annotations"]
    spec["nfs"] = {"path": "/x"}
    assert "spec.local" in [c.field for c in validate_volume({"spec": spec})]


def test_drivers() -> None:
    """How volumes are attached stays; tokens are asked for once for each audience."""
    assert not list(validate_driver(DRIVER))
    changed = {**DRIVER, "spec": {**DRIVER["spec"], "attachRequired": False}}
    assert [c.field for c in validate_driver_update(changed, DRIVER)] == ["spec.attachedRequired"]
    tokens = [{"audience": "a", "expirationSeconds": 5}, {"audience": "a"}]
    bad = {**DRIVER, "spec": {**DRIVER["spec"], "tokenRequests": tokens}}
    assert [c.reason for c in validate_driver(bad)] == ["FieldValueInvalid", "FieldValueDuplicate"]
    node = {"spec": {"drivers": [{"name": "d", "nodeID": "n"}, {"name": "d"}]}}
    assert [c.field for c in validate_driver_node(node)] == ["spec.drivers[1].nodeID", "spec.drivers[1].name"]


def test_attachments_and_runtimes_stay_what_they_are() -> None:
    """One source, one node; the handler of a runtime is a name that never changes."""
    both = {"inlineVolumeSpec": {}, "persistentVolumeName": "v"}
    attachment: Tree = {"spec": {"attacher": "d", "nodeName": "n", "source": both}}
    assert [c.reason for c in validate_attachment(attachment)] == ["FieldValueForbidden"]
    good = {"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}
    assert not list(validate_attachment_update(good, good))
    other = {"spec": {**good["spec"], "nodeName": "m"}}
    assert [c.field for c in validate_attachment_update(other, good)] == ["spec"]
    assert [c.field for c in validate_runtime({"handler": "Bad Name"})] == ["handler"]
    assert [c.field for c in validate_runtime_update({"handler": "a"}, {"handler": "b"})] == ["handler"]
