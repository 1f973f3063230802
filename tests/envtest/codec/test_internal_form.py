"""Objects as messages show them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.codec.internal_form import BATCH, CLAIM_SPEC, CORE, POD_SPEC, TEMPLATE, difference, go_name, shown
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, read, row_of, wrong
from tests.envtest.groups.trees import make

POD: JsonObject = {"spec": {"containers": [{"name": "c", "image": "nginx:2"}], "activeDeadlineSeconds": 50}}

NAMES = [
    ("apiVersion", "APIVersion"), ("awsElasticBlockStore", "AWSElasticBlockStore"), ("cephfs", "CephFS"),
    ("csi", "CSI"), ("dnsPolicy", "DNSPolicy"), ("fsGroupChangePolicy", "FSGroupChangePolicy"), ("fsType", "FSType"),
    ("gcePersistentDisk", "GCEPersistentDisk"), ("gmsaCredentialSpec", "GMSACredentialSpec"), ("grpc", "GRPC"),
    ("hostIP", "HostIP"), ("hostPID", "HostPID"), ("httpGet", "HTTPGet"), ("image", "Image"), ("ip", "IP"),
    ("ipFamilies", "IPFamilies"), ("iscsiInterface", "ISCSIInterface"), ("name", "Name"), ("os", "OS"),
    ("pdID", "PdID"), ("pdName", "PDName"), ("podIPs", "PodIPs"), ("qosClass", "QOSClass"),
    ("seLinuxOptions", "SELinuxOptions"), ("sslEnabled", "SSLEnabled"), ("tcpSocket", "TCPSocket"), ("tty", "TTY"),
    ("wwids", "WWIDs"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "name"), NAMES)
def test_fields_have_their_go_names(field: str, name: str) -> None:
    """The internal form names fields as Go's internal types do."""
    assert go_name(field) == name


def test_internal_volume_sources_have_other_names() -> None:
    """Some internal volume sources have other field names than the versioned ones."""
    assert go_name("pool", "RBDPersistentVolumeSource") == "RBDPool"
    assert go_name("endpoints", "GlusterfsVolumeSource") == "EndpointsName"


def test_pods_that_may_not_change() -> None:
    """The message has the difference, in the server's own form."""
    old = read("/pods", POD)
    old["spec"]["containers"].append({**old["spec"]["containers"][0], "name": "d", "image": "busybox"})
    new = {**old, "spec": {**old["spec"], "restartPolicy": "Never"}}
    [text] = wrong("/pods", new, old)
    assert text.endswith(
        "\n@@ -66,7 +66,7 @@\n   }\n  ],\n"
        '  "EphemeralContainers": null,\n'
        '- "RestartPolicy": "Always",\n'
        '+ "RestartPolicy": "Never",\n'
        '  "TerminationGracePeriodSeconds": 30,\n'
        '  "ActiveDeadlineSeconds": 50,\n'
        '  "DNSPolicy": "ClusterFirst",\n'
    )
    command = changed(old, "spec.containers.0.command", ["x"])
    assert difference(POD_SPEC, old["spec"], command["spec"]) == (
        '@@ -5,7 +5,9 @@\n   {\n    "Name": "c",\n    "Image": "nginx:2",\n'
        '-   "Command": null,\n+   "Command": [\n+    "x"\n+   ],\n'
        '    "Args": null,\n    "WorkingDir": "",\n    "Ports": null,\n'
    )


def test_claims_that_may_not_change() -> None:
    """The difference of two claims is printed in their internal form."""
    size = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": "fast", "volumeMode": "Filesystem"}
    assert difference(CLAIM_SPEC, spec, {**spec, "storageClassName": "slow"}) == (
        '@@ -10,7 +10,7 @@\n   }\n  },\n  "VolumeName": "",\n- "StorageClassName": "fast",\n'
        '+ "StorageClassName": "slow",\n  "VolumeMode": "Filesystem",\n  "DataSource": null,\n'
        '  "DataSourceRef": null,\n'
    )


def test_template_metadata_is_inlined_and_host_fields_move() -> None:
    """Template metadata stands beside the spec, and host namespaces stand in the security context."""
    result = shown(TEMPLATE, {"metadata": {"labels": {"a": "b"}}, "spec": {"hostPID": True}})
    assert list(result) == ["labels", "Spec"]
    context = result["Spec"]["SecurityContext"]
    assert list(context)[:5] == ["HostNetwork", "HostPID", "HostIPC", "ShareProcessNamespace", "HostUsers"]
    assert (context["HostNetwork"], context["HostPID"], context["HostUsers"]) == (False, True, None)
    assert "HostPID" not in result["Spec"]


def test_missing_numbers_are_zero_and_missing_pointers_null() -> None:
    """Missing numbers are zero, missing pointers are null, and label selectors stay unchanged."""
    probe = shown(f"{CORE}Probe", {"httpGet": {"port": "web"}})
    assert probe["HTTPGet"] == {"Path": "", "Port": "web", "Host": "", "Scheme": "", "HTTPHeaders": None}
    assert (probe["InitialDelaySeconds"], probe["TerminationGracePeriodSeconds"], probe["Exec"]) == (0, None, None)
    selector = {"matchLabels": {"a": "b"}}
    constraint = shown(f"{CORE}TopologySpreadConstraint", {"labelSelector": selector})
    assert constraint["LabelSelector"] == selector
    rule = shown(f"{BATCH}PodFailurePolicy", {"rules": [{"action": "Ignore"}]})
    assert rule == {"Rules": [{"Action": "Ignore", "OnExitCodes": None, "OnPodConditions": None}]}


@given(seed=st.integers(0, 1000))
def test_differences_of_any_pods(seed: int) -> None:
    """Every pod has a form; it differs from itself in nothing."""
    spec = make(row_of("/pods"), seed).get("spec") or {}
    json.dumps(shown(POD_SPEC, spec))
    assert not difference(POD_SPEC, spec, spec)
