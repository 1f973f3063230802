"""Volumes of pods and persistent volumes: validation of each kind of source."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, read, wrong

POD: JsonObject = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
AT = "spec.volumes[0]"
RANGE = "must be between 1 and 255, inclusive"
UNITS = "must be between 0 and 255, inclusive"

SOURCES = [
    ({"gitRepo": {}}, "gitRepo.repository: Required value"),
    ({"gitRepo": {"repository": "r", "directory": "/x"}},
     'gitRepo.directory: Invalid value: "/x": must be a relative path'),
    ({"gcePersistentDisk": {"pdName": "d", "partition": 256}},
     f"gcePersistentDisk.partition: Invalid value: 256: {RANGE}"),
    ({"awsElasticBlockStore": {"volumeID": ""}}, "awsElasticBlockStore.volumeID: Required value"),
    ({"nfs": {"server": "s", "path": "x"}}, 'nfs.path: Invalid value: "x": must be an absolute path'),
    ({"iscsi": {"targetPortal": "p", "iqn": "x", "lun": 0}},
     'iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa'),
    ({"iscsi": {"targetPortal": "p", "iqn": "iqn.x", "lun": 0}},
     'iscsi.iqn: Invalid value: "iqn.x": must be valid format'),
    ({"iscsi": {"targetPortal": "p", "iqn": "iqn.2000-01.a:b", "lun": 256}}, f"iscsi.lun: Invalid value: 256: {UNITS}"),
    ({"iscsi": {"targetPortal": "p", "iqn": "iqn.2000-01.a:b", "lun": 1, "chapAuthSession": True}},
     "iscsi.secretRef: Required value"),
    ({"iscsi": {"targetPortal": "p", "iqn": "iqn.2000-01.a:b", "lun": 1, "initiatorName": "y"}},
     'iscsi.initiatorname: Invalid value: "y": must be valid format starting with iqn, eui, or naa'),
    ({"fc": {}}, "fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"),
    ({"fc": {"targetWWNs": ["a"]}}, "fc.lun: Required value: lun is required if targetWWNs is specified"),
    ({"fc": {"targetWWNs": ["a"], "lun": 256}}, f"fc.lun: Invalid value: 256: {UNITS}"),
    ({"fc": {"targetWWNs": ["a"], "wwids": ["b"], "lun": 1}},
     'fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously'),
    ({"flocker": {}}, "flocker: Required value: one of datasetName and datasetUUID is required"),
    ({"flocker": {"datasetName": "a/b"}}, 'flocker.datasetName: Invalid value: "a/b": must not contain \'/\''),
    ({"quobyte": {"registry": "", "volume": "v"}},
     "quobyte.registry: Required value: must be a host:port pair or multiple pairs separated by commas"),
    ({"quobyte": {"registry": "a", "volume": "v"}},
     'quobyte.registry: Invalid value: "a": must be a host:port pair or multiple pairs separated by commas'),
    ({"flexVolume": {"driver": ""}}, "flexVolume.driver: Required value"),
    ({"flexVolume": {"driver": "d", "options": {"a.k8s.io/x": "1"}}},
     'flexVolume.options[a.k8s.io/x]: Invalid value: "a.k8s.io/x": kubernetes.io and k8s.io namespaces are reserved'),
    ({"azureDisk": {"diskName": "d", "diskURI": "ftp://x"}},
     ('azureDisk.diskURI: Unsupported value: "ftp://x": supported values:'
      ' "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"')),
    ({"azureDisk": {"diskName": "d", "diskURI": "https://x", "cachingMode": "No"}},
     'azureDisk.cachingMode: Unsupported value: "No": supported values: "None", "ReadOnly", "ReadWrite"'),
    ({"portworxVolume": {"volumeID": ""}}, "portworxVolume.volumeID: Required value"),
    ({"photonPersistentDisk": {"pdID": ""}}, "photonPersistentDisk.pdID: Required value"),
    ({"storageos": {}}, "storageos.volumeName: Required value"),
    ({"cinder": {"volumeID": "v", "secretRef": {}}}, "cinder.secretRef.name: Required value"),
    ({"projected": {"sources": [{"secret": {"name": "a"}, "configMap": {"name": "b"}}]}},
     "projected.sources[0]: Forbidden: may not specify more than 1 volume type per source"),
    ({"projected": {"sources": [{"configMap": {"name": "b", "items": [{"key": k, "path": "p"} for k in "xy"]}}]}},
     'projected: Invalid value: "b": conflicting duplicate paths'),
    ({"ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "x"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}}},
     "ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set for an ephemeral volume"),
    ({"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
     "ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value"),
    ({"image": {"reference": "r", "pullPolicy": "Now"}},
     'image.pullPolicy: Unsupported value: "Now": supported values: "Always", "IfNotPresent", "Never"'),
    ({"emptyDir": {}, "nfs": {}}, "nfs: Forbidden: may not specify more than 1 volume type"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "found"), SOURCES)
def test_volume_source_errors_name_the_field(source: JsonObject, found: str) -> None:
    """Each invalid field of a volume source is an error at its path."""
    assert wrong("/pods", changed(POD, "spec.volumes", [{"name": "v", **source}])) == [f"{AT}.{found}"]


FINE: list[JsonObject] = [
    {"flexVolume": {"driver": "example.com/d", "options": {"k8s": "1"}}},
    {"quobyte": {"registry": "a:1,[::1]:2", "volume": "v"}},
    {"iscsi": {"targetPortal": "p", "iqn": "eui.0123456789abcdef", "lun": 0}},
    {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/x", "kind": "Managed"}},
    {"image": {"reference": "r"}},
    {"fc": {"wwids": ["a"]}},
]


@pytest.mark.parametrize("source", FINE)
def test_valid_volume_sources_have_no_errors(source: JsonObject) -> None:
    """A valid volume source has no errors."""
    assert not wrong("/pods", changed(POD, "spec.volumes", [{"name": "v", **source}]))


def test_claims_of_ephemeral_volumes_have_no_other_users() -> None:
    """A volume cannot refer to the claim of an ephemeral volume in the same pod."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [
        {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
        {"name": "w", "persistentVolumeClaim": {"claimName": "a-v"}},
    ]
    text = "must not reference a PVC that gets created for an ephemeral volume"
    result = [f'spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "a-v": {text}']
    assert wrong("/pods", changed(POD, "spec.volumes", volumes)) == result
    assert not wrong("/podtemplates", {"template": changed(POD, "spec.volumes", volumes)})


def test_volume_sources_have_defaults() -> None:
    """Volume sources of old drivers get their defaults."""
    volumes = [
        {"name": "a", "iscsi": {"targetPortal": "p", "iqn": "q", "lun": 0}},
        {"name": "b", "rbd": {"monitors": ["m"], "image": "i"}},
        {"name": "c", "azureDisk": {"diskName": "d", "diskURI": "u"}},
        {"name": "d", "scaleIO": {"gateway": "g", "system": "s", "secretRef": None}},
        {"name": "e", "image": {"reference": "r:1"}},
    ]
    read_back = read("/pods", changed(POD, "spec.volumes", volumes))["spec"]["volumes"]
    assert read_back[0]["iscsi"]["iscsiInterface"] == "default"
    assert read_back[1]["rbd"] | {"monitors": 0, "image": 0} == {
        "monitors": 0, "image": 0, "pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring",
    }  # fmt: skip
    disk = {"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": False}
    assert disk.items() <= read_back[2]["azureDisk"].items()
    assert {"storageMode": "ThinProvisioned", "fsType": "xfs"}.items() <= read_back[3]["scaleIO"].items()
    assert read_back[4]["image"]["pullPolicy"] == "IfNotPresent"


# ------------------------------------------------------------------ persistent volumes
VOLUME: JsonObject = {
    "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
}

VOLUMES = [
    ("spec.capacity.storage", "-1",
     ["spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
      'spec.capacity[storage]: Invalid value: "-1": must be greater than zero']),
    ("spec.hostPath", None, ["spec: Required value: must specify a volume type"]),
    ("spec.nfs", {"server": "s", "path": "/x"}, ["spec.nfs: Forbidden: may not specify more than 1 volume type"]),
    ("spec.persistentVolumeReclaimPolicy", "Burn",
     [('spec.persistentVolumeReclaimPolicy: Unsupported value: "Burn": supported values: "Delete", "Recycle",'
       ' "Retain"')]),
    ("spec.volumeAttributesClassName", "gold",
     ["spec.csi: Required value: has to be specified when using volumeAttributesClassName"]),
    ("spec.accessModes", ["ReadWriteOncePod", "ReadOnlyMany"],
     ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "found"), VOLUMES)
def test_persistent_volumes(path: str, value: Any, found: list[str]) -> None:
    """A persistent volume needs a capacity, access modes and one source."""
    assert wrong("/persistentvolumes", changed(VOLUME, path, value)) == found


def test_csi_secret_references_need_a_namespace() -> None:
    """A secret reference of a CSI volume needs a namespace; only the one for expansion may be added later."""
    spec = {k: v for k, v in VOLUME["spec"].items() if k != "hostPath"}
    old = {"spec": {**spec, "csi": {"driver": "d", "volumeHandle": "h"}}}
    ref = {"controllerExpandSecretRef": {"name": "s"}}
    new = changed(old, "spec.csi", {**old["spec"]["csi"], **ref})
    assert wrong("/persistentvolumes", new) == ["spec.csi.controllerExpandSecretRef.namespace: Required value"]
    whole = changed(new, "spec.csi.controllerExpandSecretRef.namespace", "n")
    assert not wrong("/persistentvolumes", whole, old)
    text = "spec.persistentvolumesource is immutable after creation"
    [errors] = wrong("/persistentvolumes", old, whole)
    assert errors.startswith(f"spec.persistentvolumesource: Forbidden: {text}\n@@ -")
    assert '\n+  "ControllerExpandSecretRef": null,\n' in errors
