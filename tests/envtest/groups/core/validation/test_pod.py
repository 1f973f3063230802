"""Pods and pod templates."""

from __future__ import annotations

from typing import Any

import pytest

from envtest.groups.apps.validation import validate_stateful_set
from envtest.groups.core.strategy.persistent_volume_claim import share_source
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, read, wrong

POD: JsonObject = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
ID = "must be between 0 and 2147483647, inclusive"

EVERYWHERE = [
    ("spec.securityContext.runAsUser", -1, f"spec.securityContext.runAsUser: Invalid value: -1: {ID}"),
    ("spec.containers.0.securityContext.runAsGroup", 2**31,
     f"spec.containers[0].securityContext.runAsGroup: Invalid value: 2147483648: {ID}"),
    ("spec.securityContext.supplementalGroups", [-1],
     f"spec.securityContext.supplementalGroups[0]: Invalid value: -1: {ID}"),
    ("spec.securityContext.sysctls", [{"name": "", "value": "1"}],
     "spec.securityContext.sysctls[0].name: Required value"),
    ("spec.securityContext.sysctls", [{"name": "Net!", "value": "1"}],
     ('spec.securityContext.sysctls[0].name: Invalid value: "Net!": must have at most 253 characters and match regex '
     r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$")),
    ("spec.securityContext.sysctls", [{"name": "a.b", "value": "1"}, {"name": "a.b", "value": "2"}],
     'spec.securityContext.sysctls[1].name: Duplicate value: "a.b"'),
    ("spec.securityContext.fsGroupChangePolicy", "Maybe",
     ('spec.securityContext.fsGroupChangePolicy: Unsupported value: "Maybe": supported values: "Always",'
     ' "OnRootMismatch"')),
    ("spec.securityContext.seccompProfile", {"type": ""},
     "spec.securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set"),
    ("spec.securityContext.seccompProfile", {"type": "Odd"},
     ('spec.securityContext.seccompProfile.type: Unsupported value: "Odd": supported values: "Localhost",'
     ' "RuntimeDefault", "Unconfined"')),
    ("spec.securityContext.seccompProfile", {"type": "Localhost"},
     ("spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is"
      " Localhost")),
    ("spec.containers.0.securityContext.appArmorProfile", {"type": "RuntimeDefault", "localhostProfile": "x"},
     ('spec.containers[0].securityContext.appArmorProfile.localhostProfile: Invalid value: "x": can only be set when'
     " AppArmor type is Localhost")),
    ("spec.containers.0.securityContext.appArmorProfile", {"type": "Localhost", "localhostProfile": " x"},
     ('spec.containers[0].securityContext.appArmorProfile.localhostProfile: Invalid value: " x": must not be padded'
     " with whitespace")),
    ("spec.containers.0.securityContext.procMount", "Odd",
     'spec.containers[0].securityContext.procMount: Unsupported value: "Odd": supported values: "Default", "Unmasked"'),
    ("spec.containers.0.securityContext", {"allowPrivilegeEscalation": False, "privileged": True},
     ('spec.containers[0].securityContext: Invalid value: {"Capabilities":null,"Privileged":true,"SELinuxOptions":null,'
            '"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,'
            '"AllowPrivilegeEscalation":false,"ProcMount":null,"SeccompProfile":null,"AppArmorProfile":null}: cannot'
     " set `allowPrivilegeEscalation` to false and `privileged` to true")),
    ("spec.os", {"name": ""}, "spec.os.name: Required value: cannot be empty"),
    ("spec.os", {"name": "beos"}, 'spec.os: Unsupported value: "beos": supported values: "linux", "windows"'),
    ("spec.volumes", [{"name": "v", "emptyDir": {"sizeLimit": "-1"}}],
     "spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"),
    ("spec.volumes", [{"name": "v", "csi": {"driver": "d" * 64}}],
     "spec.volumes[0].csi.driver: Too long: may not be more than 63 bytes"),
    ("spec.volumes", [{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {}}}],
     "spec.volumes[0].csi.nodePublishSecretRef.name: Required value"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "found"), EVERYWHERE)
def test_templates_are_validated_like_pods(path: str, value: Any, found: str) -> None:
    """Each invalid field of a pod is an error of a pod template too."""
    tree = changed(POD, path, value)
    assert wrong("/pods", tree) == [found]
    assert wrong("/podtemplates", {"template": tree}) == [f"template.{found}"]


ONLY_PODS = [
    ("spec.containers.0.image", " i",
     'spec.containers[0].image: Invalid value: " i": must not have leading or trailing whitespace'),
    ("spec.volumes", [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
     ("spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when"
     " serviceAccountName is not set")),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "found"), ONLY_PODS)
def test_some_rules_hold_for_pods_only(path: str, value: Any, found: str) -> None:
    """A template may omit some fields that a pod must have."""
    tree = changed(POD, path, value)
    assert wrong("/pods", tree) == [found]
    assert wrong("/podtemplates", {"template": tree}) == []


def test_what_a_new_pod_cannot_have() -> None:
    """A new pod has no ephemeral containers, and no node while it has scheduling gates."""
    debugging = changed(POD, "spec.ephemeralContainers", [{"name": "d", "image": "i"}])
    assert wrong("/pods", debugging) == ["spec.ephemeralContainers: Forbidden: cannot be set on create"]
    assert wrong("/pods", debugging, debugging) == []
    gated = {"spec": {**POD["spec"], "nodeName": "n", "schedulingGates": [{"name": "g"}]}}
    text = "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
    assert wrong("/pods", gated) == [text]


def test_processes_cannot_be_shared_twice() -> None:
    """Processes are shared with the node or among the containers, not both."""
    both = {"spec": {**POD["spec"], "hostPID": True, "shareProcessNamespace": True}}
    text = "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot"
    assert wrong("/pods", both) == [f"{text} both be enabled"]


VOLUME: JsonObject = {
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
        "nodeAffinity": {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
        },
    }
}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("spec.hostPath.path", "/a/../b", "spec.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"),
        ("spec.nodeAffinity", {}, "spec.nodeAffinity.required: Required value: must specify required node constraints"),
        ("spec.capacity", {"storage": "0"}, 'spec.capacity[storage]: Invalid value: "0": must be greater than zero'),
        ("spec.accessModes", None, "spec.accessModes: Required value"),
    ],
)
def test_persistent_volume_errors_name_the_field(path: str, value: Any, found: str) -> None:
    """Each invalid field of a persistent volume is an error at its path."""
    assert found in wrong("/persistentvolumes", changed(VOLUME, path, value))


def test_volumes_stay_where_they_are() -> None:
    """Source, node affinity and mode of a persistent volume are immutable."""
    assert wrong("/persistentvolumes", VOLUME, VOLUME) == []
    moved = changed(VOLUME, "spec.hostPath.path", "/elsewhere")
    assert "spec.persistentvolumesource" in wrong("/persistentvolumes", moved, VOLUME)[0]
    free = changed(VOLUME, "spec.nodeAffinity", None)
    assert wrong("/persistentvolumes", free, VOLUME) == ["nodeAffinity: Invalid value: null: field is immutable"]
    assert wrong("/persistentvolumes", VOLUME, free) == []
    root = changed(changed(VOLUME, "spec.hostPath.path", "/"), "spec.persistentVolumeReclaimPolicy", "Recycle")
    [text] = wrong("/persistentvolumes", root)
    assert text.endswith("may not be 'recycle' for a hostPath mount of '/'")


def _slice(kind: str, *addresses: str) -> JsonObject:
    return {"addressType": kind, "endpoints": [{"addresses": list(addresses)}]}


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        (_slice("IPv4", "10.0.0.1"), []),
        (_slice("IPv6", "2001:db8::1"), []),
        (_slice("FQDN", "a.example.com."), []),
        (_slice("FQDN", "a"), ['"a": should be a domain with at least two segments separated by dots']),
        (_slice("IPv4", "2001:db8::1"), ['"2001:db8::1": must be an IPv4 address']),
        (_slice("IPv4", "127.0.0.1"), ['"127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)']),
    ],
)
def test_endpoint_slices(tree: JsonObject, found: list[str]) -> None:
    """Addresses of one sort, which others can reach."""
    # The server blames the list, not the item, for an address of the other family.
    whole = "endpoints[0].addresses: Invalid value: "
    item = "endpoints[0].addresses[0]: Invalid value: "
    expected = [(whole if "IPv4 address" in text else item) + text for text in found]
    assert wrong("discovery.k8s.io/endpointslices", tree) == expected


CLAIM: JsonObject = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
OTHER = {"apiGroup": "example.com", "kind": "Backup", "name": "b"}


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"dataSource": SNAPSHOT}, {"dataSource": SNAPSHOT, "dataSourceRef": SNAPSHOT}),
        ({"dataSourceRef": OTHER}, {"dataSource": OTHER, "dataSourceRef": OTHER}),
        ({"dataSource": OTHER}, {}),
        ({"dataSourceRef": {**OTHER, "namespace": "n"}}, {}),
        ({}, {}),
    ],
)
def test_the_data_source_of_a_claim(spec: JsonObject, kept: JsonObject) -> None:
    """A claim has its data source in two fields, which must agree."""
    claim = {"spec": dict(spec)}
    share_source(claim, None)
    assert claim["spec"] == kept


def test_data_of_other_namespaces() -> None:
    """A dataSourceRef with a namespace is not copied to dataSource."""
    claim = {"spec": {"dataSourceRef": {**OTHER, "namespace": "n"}}}
    share_source(claim, {"spec": {"dataSourceRef": OTHER}})
    assert claim["spec"] == {"dataSourceRef": {**OTHER, "namespace": "n"}}


def test_data_source_and_data_source_ref_agree() -> None:
    """A claim whose dataSource and dataSourceRef differ is rejected."""
    both = changed(changed(CLAIM, "spec.dataSource", SNAPSHOT), "spec.dataSourceRef", OTHER)
    assert wrong("/persistentvolumeclaims", both) == ["spec: Invalid value: {}: must match dataSourceRef"]
    same = changed(changed(CLAIM, "spec.dataSource", SNAPSHOT), "spec.dataSourceRef", SNAPSHOT)
    assert wrong("/persistentvolumeclaims", same) == []


NODE: JsonObject = {"spec": {"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": ["k"]}]}}


def test_drivers_of_a_csi_node_are_immutable() -> None:
    """A driver of a CSINode is immutable, except for its allocatable count."""
    more = changed(NODE, "spec.drivers.0.allocatable", {"count": 3})
    assert wrong("storage.k8s.io/csinodes", more, NODE) == []
    other = changed(NODE, "spec.drivers.0.nodeID", "m")
    [text] = wrong("storage.k8s.io/csinodes", other, NODE)
    assert text.startswith("CSINodeDriver: Invalid value: ")
    assert text.endswith("field is immutable")


SERVICE: JsonObject = {"spec": {"ports": [{"port": 80}]}}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("spec.trafficDistribution", "PreferSameNode", []),
        (
            "spec.trafficDistribution",
            "Somewhere",
            ["spec.trafficDistribution: Unsupported value: "],
        ),
        ("spec.externalIPs", ["239.0.0.1"], []),
        ("spec.externalIPs", ["224.0.0.1"], ['spec.externalIPs[0]: Invalid value: "224.0.0.1": may not be in the']),
        ("spec.externalIPs", ["0.0.0.0"], ['spec.externalIPs[0]: Invalid value: "0.0.0.0": may not be unspecified']),
    ],
)
def test_services_reject_unreachable_external_ips(path: str, value: Any, found: list[str]) -> None:
    """An unknown traffic distribution and an unreachable external IP are errors."""
    from envtest.groups.core.validation.service import validate_service

    causes = [f"{c.field}: {c.message}" for c in validate_service(read("/services", changed(SERVICE, path, value)))]
    causes = [text for text in causes if path in text]
    assert len(causes) == len(found)
    assert all(text.startswith(begin) for text, begin in zip(causes, found, strict=True))


def test_tolerances_of_autoscalers_are_positive() -> None:
    """The tolerance of an autoscaler is not negative."""
    rule = {"tolerance": "-1", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 1}]}
    spec = {
        "maxReplicas": 2,
        "scaleTargetRef": {"kind": "D", "name": "d", "apiVersion": "apps/v1"},
        "behavior": {"scaleUp": rule},
    }
    text = 'spec.behavior.scaleUp.tolerance: Invalid value: "-1": must be greater than or equal to 0'
    assert wrong("autoscaling/horizontalpodautoscalers", {"spec": spec}) == [text]


def test_stateful_set_pods_may_mount_their_claims() -> None:
    """A StatefulSet's pod may mount volumes that are not in the template; a Deployment's may not."""
    mounting = changed(POD, "spec.containers.0.volumeMounts", [{"name": "data", "mountPath": "/d"}])
    template = {**mounting, "metadata": {"labels": {"a": "b"}}}
    spec: JsonObject = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    assert not wrong("apps/statefulsets", {"spec": spec})
    result = 'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"'
    assert wrong("apps/deployments", {"spec": spec}) == [result]
    rolling = {**spec, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "0%"}}}
    filled = read("apps/statefulsets", {"spec": spec})["spec"]["template"]
    [cause] = validate_stateful_set({**rolling, "podManagementPolicy": "Parallel", "template": filled})
    assert (cause.field, cause.message) == (
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
        'Invalid value: "0%": cannot be 0',
    )
    assert not wrong("apps/statefulsets", {"spec": rolling})
    never = {"spec": {**spec, "template": changed(template, "spec.restartPolicy", "Never")}}
    assert wrong("apps/statefulsets", never) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'
    ]
