"""Immutable fields: each rejects any change, and an unchanged object is accepted."""

from __future__ import annotations

import pytest

from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, wrong

POD: JsonObject = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE: JsonObject = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
WORKLOAD: JsonObject = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
SET: JsonObject = {"spec": {**WORKLOAD["spec"], "serviceName": "s"}}
WIDER = changed(changed(WORKLOAD, "spec.selector.matchLabels.c", "d"), "spec.template.metadata.labels.c", "d")
ONCE: JsonObject = {"restartPolicy": "Never", **POD}
JOB: JsonObject = {
    "spec": {
        "manualSelector": True,
        "selector": {"matchLabels": {"a": "b"}},
        "completions": 1,
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": ONCE},
    }
}
CLASS: JsonObject = {"provisioner": "example.com/p", "parameters": {"a": "b"}}
CAPACITY: JsonObject = {"storageClassName": "c", "nodeTopology": {"matchLabels": {"a": "b"}}, "capacity": "1Gi"}
DRIVER: JsonObject = {"spec": {"attachRequired": True}}
ATTACHMENT: JsonObject = {"spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}
SLICE: JsonObject = {"addressType": "IPv4", "endpoints": []}
QUOTA: JsonObject = {"spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}
REVISION: JsonObject = {"revision": 1, "data": {"a": 1}}
BINDING: JsonObject = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}}

IMMUTABLE = [
    ("apps/deployments", WORKLOAD, WIDER, "spec.selector"),
    ("apps/replicasets", WORKLOAD, WIDER, "spec.selector"),
    ("apps/daemonsets", WORKLOAD, WIDER, "spec.selector"),
    ("apps/statefulsets", SET, changed(SET, "spec.serviceName", "t"), "spec"),
    ("apps/statefulsets", SET, changed(SET, "spec.podManagementPolicy", "Parallel"), "spec"),
    ("apps/controllerrevisions", REVISION, changed(REVISION, "data.a", 2), "data"),
    ("batch/jobs", JOB, changed(JOB, "spec.completions", 2), "spec.completions"),
    ("batch/jobs", JOB, changed(JOB, "spec.template.spec.containers.0.image", "j"), "spec.template"),
    ("batch/jobs", JOB, changed(JOB, "spec.managedBy", "a.b/c"), "spec.managedBy"),
    ("storage.k8s.io/storageclasses", CLASS, changed(CLASS, "provisioner", "example.com/q"), "provisioner"),
    ("storage.k8s.io/storageclasses", CLASS, changed(CLASS, "parameters", None), "parameters"),
    ("storage.k8s.io/storageclasses", CLASS, changed(CLASS, "reclaimPolicy", "Retain"), "reclaimPolicy"),
    (
        "storage.k8s.io/storageclasses",
        CLASS,
        changed(CLASS, "volumeBindingMode", "WaitForFirstConsumer"),
        "volumeBindingMode",
    ),
    ("storage.k8s.io/csistoragecapacities", CAPACITY, changed(CAPACITY, "storageClassName", "d"), "storageClassName"),
    ("storage.k8s.io/csistoragecapacities", CAPACITY, changed(CAPACITY, "nodeTopology", {}), "nodeTopology"),
    (
        "storage.k8s.io/volumeattributesclasses",
        {"driverName": "d", "parameters": {"a": "b"}},
        {"driverName": "e", "parameters": {"a": "b"}},
        "driverName",
    ),
    (
        "storage.k8s.io/volumeattributesclasses",
        {"driverName": "d", "parameters": {"a": "b"}},
        {"driverName": "d", "parameters": {"a": "c"}},
        "parameters",
    ),
    ("storage.k8s.io/csidrivers", DRIVER, changed(DRIVER, "spec.attachRequired", False), "spec.attachedRequired"),
    ("storage.k8s.io/volumeattachments", ATTACHMENT, changed(ATTACHMENT, "spec.nodeName", "m"), "spec"),
    ("node.k8s.io/runtimeclasses", {"handler": "h"}, {"handler": "i"}, "handler"),
    ("discovery.k8s.io/endpointslices", SLICE, changed(SLICE, "addressType", "IPv6"), "addressType"),
    ("scheduling.k8s.io/priorityclasses", {"value": 1}, {"value": 2}, "value"),
    ("/secrets", {"type": "Opaque"}, {"type": "example.com/t"}, "type"),
    ("/secrets", {"immutable": True, "data": {}}, {"immutable": True, "data": {"a": "YQ=="}}, "data"),
    ("/configmaps", {"immutable": True}, {}, "immutable"),
    ("/configmaps", {"immutable": True}, {"immutable": True, "data": {"a": "b"}}, "data"),
    ("/resourcequotas", QUOTA, changed(QUOTA, "spec.scopes", ["NotBestEffort"]), "spec.scopes"),
    ("rbac.authorization.k8s.io/rolebindings", BINDING, changed(BINDING, "roleRef.name", "s"), "roleRef"),
    ("rbac.authorization.k8s.io/clusterrolebindings", BINDING, changed(BINDING, "roleRef.name", "s"), "roleRef"),
]


@pytest.mark.parametrize(("kind", "old", "new", "field"), IMMUTABLE)
def test_what_stays(kind: str, old: JsonObject, new: JsonObject, field: str) -> None:
    """A change of an immutable field is rejected at its path; the unchanged object is accepted."""
    meta = {"metadata": {"name": "a.example.com" if kind.endswith("csidrivers") else "a", "resourceVersion": "1"}}
    old, new = {**old, **meta}, {**new, **meta}
    assert wrong(kind, old, old) == []
    assert field in [text.partition(":")[0] for text in wrong(kind, new, old)]
