"""What ``kubectl get`` shows of built-in kinds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from envtest.data.columns import has_columns
from envtest.data.resources import rows
from envtest.data.versions import VERSIONS
from envtest.groups.common.printing import DefaultPrinter
from envtest.groups.printers import PRINTERS, printer_of
from opsdk.structured_merge.value import JsonObject

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC).timestamp()
META = {"name": "x", "namespace": "n", "creationTimestamp": "2026-01-01T00:59:00Z"}
EARLIER = "2026-01-01T00:30:00Z"
PLAIN = {
    "/limitranges",
    "apiextensions.k8s.io/customresourcedefinitions",  # until 1.36
    "certificates.k8s.io/podcertificaterequests",  # no source had their columns
    "resource.k8s.io/devicetaintrules",
    "rbac.authorization.k8s.io/clusterroles",
    "rbac.authorization.k8s.io/roles",
}
"""Kinds that show no more than their name and when they were made, on a real server too."""


def rows_of(key: str, **fields: Any) -> list[Any]:
    """The cells behind the name."""
    name, *cells = PRINTERS[key].cells({"metadata": META, **fields}, NOW)
    assert name == "x"
    return cells


def test_every_kind_has_columns() -> None:
    """Each kind that a version lists has table columns there or is listed as an exception."""
    for version in VERSIONS:
        listed = {f"{row.info.group}/{row.info.resource}" for row in rows(version) if "list" in row.verbs}
        plain = {key for key in listed if isinstance(printer_of(key, version), DefaultPrinter)}
        assert plain <= PLAIN


@pytest.mark.parametrize(
    ("key", "version"), [(key, version) for version in VERSIONS for key in PRINTERS if has_columns(key, version)]
)
def test_rows_are_as_wide_as_the_head(key: str, version: str) -> None:
    """An empty object has a row with a cell for each column, in each version."""
    printer = printer_of(key, version)
    for obj in ({"metadata": META}, {"metadata": META, "spec": {}, "status": {}, "subsets": None, "series": None}):
        extra = 1 if key == "networking.k8s.io/ipaddresses" else 0  # their age has no head
        assert len(printer.cells(obj, NOW)) == len(printer.columns) + extra
        assert printer.conditions(obj) == ()


def container(name: str = "c", **fields: Any) -> JsonObject:
    """The status of a container."""
    return {"name": name, "restartCount": 0, **fields}


RUNNING = {"state": {"running": {}}, "ready": True}
DONE = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
PODS: list[tuple[JsonObject, JsonObject, tuple[str, str, str]]] = [
    ({}, {"phase": "Pending"}, ("0/1", "Pending", "0")),
    ({}, {"phase": "Running", "containerStatuses": [container(**RUNNING)]}, ("1/1", "Running", "0")),
    ({}, {"phase": "Failed", "reason": "Evicted"}, ("0/1", "Evicted", "0")),
    (
        {},
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
        ("0/1", "SchedulingGated", "0"),
    ),
    (
        {},
        {"phase": "Running", "containerStatuses": [container(state={"waiting": {"reason": "CrashLoopBackOff"}})]},
        ("0/1", "CrashLoopBackOff", "0"),
    ),
    (
        {},
        {"phase": "Failed", "containerStatuses": [container(state={"terminated": {"exitCode": 3}})]},
        ("0/1", "ExitCode:3", "0"),
    ),
    (
        {},
        {"phase": "Failed", "containerStatuses": [container(state={"terminated": {"exitCode": 137, "signal": 9}})]},
        ("0/1", "Signal:9", "0"),
    ),
    (
        {},
        {
            "phase": "Running",
            "containerStatuses": [
                container(**RUNNING | {"restartCount": 2, "lastState": {"terminated": {"finishedAt": EARLIER}}})
            ],
        },
        ("1/1", "Running", "2 (30m ago)"),
    ),
    (
        {"containers": [{"name": "c"}, {"name": "d"}]},
        {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [container(**DONE), container("d", **RUNNING)],
        },
        ("1/2", "NotReady", "0"),
    ),
    (
        {"initContainers": [{"name": "i"}, {"name": "j"}]},
        {"phase": "Pending", "initContainerStatuses": [container("i", **DONE), container("j", **RUNNING)]},
        ("0/1", "Init:1/2", "0"),
    ),
    (
        {"initContainers": [{"name": "i"}]},
        {
            "phase": "Pending",
            "initContainerStatuses": [
                container("i", restartCount=4, state={"terminated": {"exitCode": 1, "reason": "Error"}})
            ],
        },
        ("0/1", "Init:Error", "4"),
    ),
    (
        {"initContainers": [{"name": "i"}]},
        {
            "phase": "Pending",
            "initContainerStatuses": [container("i", state={"waiting": {"reason": "ErrImagePull"}})],
        },
        ("0/1", "Init:ErrImagePull", "0"),
    ),
    (
        {"initContainers": [{"name": "i", "restartPolicy": "Always"}]},
        {
            "phase": "Running",
            "initContainerStatuses": [container("i", **RUNNING | {"started": True, "restartCount": 1})],
            "containerStatuses": [container(**RUNNING)],
        },
        ("2/2", "Running", "1"),
    ),
]


@pytest.mark.parametrize(("spec", "status", "shown"), PODS, ids=[row[2][1] for row in PODS])
def test_pods_sum_up_their_containers(spec: Any, status: Any, shown: Any) -> None:
    """Ready, status and restarts come from containers, sidecars and init containers."""
    row = rows_of("/pods", spec={"containers": [{"name": "c"}], **spec}, status=status)
    assert tuple(row[:3]) == shown


def test_deleted_pods_are_terminating_until_they_end() -> None:
    """A deleted pod is Terminating until it ends, and Unknown if its node is lost."""
    going = {**META, "deletionTimestamp": EARLIER}
    cells = PRINTERS["/pods"].cells
    assert cells({"metadata": going, "status": {"phase": "Running"}}, NOW)[2] == "Terminating"
    assert cells({"metadata": going, "status": {"phase": "Succeeded"}}, NOW)[2] == "Succeeded"
    assert cells({"metadata": going, "status": {"phase": "Running", "reason": "NodeLost"}}, NOW)[2] == "Unknown"


def test_rows_of_pods_that_have_ended_say_so() -> None:
    """Rows of finished pods carry a condition that clients can show."""
    (message,) = PRINTERS["/pods"].conditions({"status": {"phase": "Succeeded"}})
    assert (message["type"], message["message"]) == ("Completed", "The pod has completed successfully.")
    assert DefaultPrinter().conditions({}) == ()


def test_what_was_never_created_has_a_time_too() -> None:
    """Objects without a creationTimestamp, such as reviews, show the zero time."""
    assert DefaultPrinter().cells({}, NOW) == ["", "0001-01-01T00:00:00Z"]


def test_gates_of_pods_are_counted() -> None:
    """The readiness gates column counts the true gates."""
    spec = {"readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]}
    assert rows_of("/pods", spec=spec, status={"conditions": [{"type": "b", "status": "True"}]})[-1] == "1/2"


ROWS: list[tuple[str, JsonObject, list[Any]]] = [
    (
        "/services",
        {
            "spec": {
                "type": "LoadBalancer",
                "clusterIPs": ["10.0.0.2"],
                "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
                "externalIPs": ["8.8.8.8"],
                "selector": {"b": "2", "a": "1"},
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h"}]}},
        },
        ["LoadBalancer", "10.0.0.2", "1.2.3.4,h,8.8.8.8", "80:30000/TCP,53/UDP", "60s", "a=1,b=2"],
    ),
    (
        "/services",
        {"spec": {"type": "ExternalName", "externalName": "e.io"}},
        ["ExternalName", "<none>", "e.io", "<none>", "60s", "<none>"],
    ),
    (
        "/endpoints",
        {"subsets": [{"addresses": [{"ip": f"10.0.0.{i}"} for i in range(5)], "ports": [{"port": 80}]}]},
        ["10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more...", "60s"],
    ),
    ("/endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}, ["10.0.0.1", "60s"]),
    ("/endpoints", {"subsets": [{"addresses": [{"ip": "fd::1"}], "ports": [{"port": 1}]}]}, ["[fd::1]:1", "60s"]),
    (
        "discovery.k8s.io/endpointslices",
        {"addressType": "IPv4", "ports": [{"port": 80}, {"name": "m"}], "endpoints": [{"addresses": ["10.1.0.1"]}]},
        ["IPv4", "80,m", "10.1.0.1", "60s"],
    ),
    ("discovery.k8s.io/endpointslices", {"ports": [{"name": ""}]}, ["", "<unset>", "<unset>", "60s"]),
    ("discovery.k8s.io/endpointslices", {"ports": [{}, {"port": 1}]}, ["", "*,1", "<unset>", "60s"]),
    (
        "/componentstatuses",
        {"conditions": [{"type": "Healthy", "status": "False", "message": "m", "error": "e"}]},
        ["Unhealthy", "m", "e"],
    ),
    ("discovery.k8s.io/endpointslices", {"addressType": "IPv6"}, ["IPv6", "<unset>", "<unset>", "60s"]),
    (
        "networking.k8s.io/ingresses",
        {
            "spec": {"ingressClassName": "nginx", "tls": [{}], "rules": [{"host": h} for h in "abcde"]},
            "status": {"loadBalancer": {"ingress": [{"hostname": "lb"}]}},
        },
        ["nginx", "a,b,c + 2 more...", "lb", "80, 443", "60s"],
    ),
    ("networking.k8s.io/ingresses", {"spec": {"rules": [{}]}}, ["<none>", "*", "", "80", "60s"]),
    (
        "networking.k8s.io/ingressclasses",
        {"spec": {"controller": "c.io/x", "parameters": {"apiGroup": "g.io", "kind": "P", "name": "p"}}},
        ["c.io/x", "P.g.io/p", "60s"],
    ),
    (
        "networking.k8s.io/ipaddresses",
        {"spec": {"parentRef": {"resource": "services", "namespace": "d", "name": "s"}}},
        ["services/d/s", "60s"],
    ),
    ("networking.k8s.io/servicecidrs", {"spec": {"cidrs": ["10.0.0.0/24", "fd::/64"]}}, ["10.0.0.0/24,fd::/64", "60s"]),
    (
        "/persistentvolumes",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "d", "name": "c"},
                "storageClassName": "fast",
                "volumeMode": "Block",
            },
            "status": {"phase": "Bound"},
        },
        ["1Gi", "RWO,RWX", "Retain", "Bound", "d/c", "fast", "<unset>", "", "60s", "Block"],
    ),
    (
        "/persistentvolumeclaims",
        {"spec": {"storageClassName": "fast", "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}},
        ["Pending", "", "", "", "fast", "<unset>", "60s", "Filesystem"],
    ),
    (
        "storage.k8s.io/csidrivers",
        {"spec": {"attachRequired": False, "tokenRequests": [{"audience": "a"}, {"audience": "b"}]}},
        [False, False, False, "a,b", False, "<none>", "60s"],
    ),
    (
        "storage.k8s.io/volumeattachments",
        {"spec": {"attacher": "a", "nodeName": "m", "source": {"persistentVolumeName": "p"}}},
        ["a", "p", "m", False, "60s"],
    ),
    (
        "/nodes",
        {
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "1.1.1.1"}],
                "nodeInfo": {"kubeletVersion": "v1.36.2", "osImage": "Linux"},
            },
        },
        [
            *("Ready,SchedulingDisabled", "<none>", "60s", "v1.36.2", "1.1.1.1", "<none>"),
            *("Linux", "<unknown>", "<unknown>"),
        ],
    ),
    (
        "/resourcequotas",
        {"status": {"hard": {"limits.cpu": "2", "pods": "4"}, "used": {"limits.cpu": "1", "pods": "3"}}},
        ["pods: 3/4", "limits.cpu: 1/2", "60s"],
    ),
    ("policy/poddisruptionbudgets", {"spec": {"minAvailable": "50%"}}, ["50%", "N/A", 0, "60s"]),
    (
        "scheduling.k8s.io/priorityclasses",
        {"value": 7, "preemptionPolicy": "Never"},
        [7, False, "60s", "Never"],
    ),
    (
        "batch/jobs",
        {
            "spec": {"completions": 3},
            "status": {
                "succeeded": 3,
                "startTime": EARLIER,
                "completionTime": "2026-01-01T00:30:05Z",
                "conditions": [{"type": "Complete", "status": "True"}],
            },
        },
        ["Complete", "3/3", "5s", "60s", "", "", "<none>"],
    ),
    ("batch/jobs", {"spec": {"parallelism": 4}}, ["Running", "0/1 of 4", "", "60s", "", "", "<none>"]),
    (
        "apps/controllerrevisions",
        {"revision": 3},
        ["<none>", 3, "60s"],
    ),
    (
        "autoscaling/horizontalpodautoscalers",
        {
            "apiVersion": "autoscaling/v2",
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                "minReplicas": 1,
                "maxReplicas": 9,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
                    {"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}},
                    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"averageValue": "1"}}},
                ],
            },
            "status": {"currentMetrics": [{"type": "Resource", "resource": {"current": {"averageUtilization": 5}}}]},
        },
        ["Deployment/d", "cpu: 5%/80%, memory: <unknown>/1Gi + 1 more...", "1", 9, 0, "60s"],
    ),
    (
        "autoscaling/horizontalpodautoscalers",
        {
            "apiVersion": "autoscaling/v1",
            "spec": {
                "maxReplicas": 2,
                "scaleTargetRef": {"kind": "D", "name": "d"},
                "targetCPUUtilizationPercentage": 5,
            },
        },
        ["D/d", "cpu: <unknown>/5%", "<unset>", 2, 0, "60s"],
    ),
    (
        "certificates.k8s.io/certificatesigningrequests",
        {
            "spec": {"signerName": "s.io/x", "username": "u", "expirationSeconds": 3600},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "YQ=="},
        },
        ["60s", "s.io/x", "u", "60m", "Approved,Issued"],
    ),
    (
        "apiregistration.k8s.io/apiservices",
        {
            "spec": {"service": {"namespace": "k", "name": "m"}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]},
        },
        ["k/m", "False (MissingEndpoints)", "60s"],
    ),
    (
        "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
        {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}}},
        ["Limited", 5, "<none>", "<none>", "<none>", "60s"],
    ),
    (
        "resource.k8s.io/resourceclaims",
        {"status": {"allocation": {}, "reservedFor": [{}]}},
        ["allocated,reserved", "60s"],
    ),
]


@pytest.mark.parametrize(("key", "fields", "shown"), ROWS, ids=[row[0] for row in ROWS])
def test_rows_read_like_those_of_a_real_server(key: str, fields: JsonObject, shown: list[Any]) -> None:
    """Each cell has the text that a recorded kube-apiserver printed."""
    assert rows_of(key, **fields) == shown


AVERAGE = {"averageValue": "3"}
METRICS: list[tuple[JsonObject, JsonObject | None, str]] = [
    ({"type": "Pods", "pods": {"target": AVERAGE}}, None, "<unknown>/3"),
    ({"type": "Pods", "pods": {"target": AVERAGE}}, {"pods": {"current": AVERAGE}}, "3/3"),
    ({"type": "Object", "object": {"target": {"value": "2k"}}}, {"object": {"current": {"value": "1"}}}, "1/2k"),
    ({"type": "Object", "object": {"target": AVERAGE}}, {"object": {"current": {"value": "1"}}}, "<unknown>/3 (avg)"),
    ({"type": "External", "external": {"target": {"value": "2"}}}, {"external": {"current": {}}}, "<nil>/2"),
    ({"type": "External", "external": {"target": AVERAGE}}, {"external": {"current": AVERAGE}}, "3/3 (avg)"),
    (
        {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {}}},
        {"containerResource": {"current": {"averageUtilization": 7}}},
        "cpu: 7%/<auto>",
    ),
    ({"type": "Resource", "resource": {"name": "cpu", "target": AVERAGE}}, {"resource": {}}, "cpu: <nil>/3"),
    ({"type": "Else"}, None, "<unknown type>"),
]


@pytest.mark.parametrize(("metric", "reported", "shown"), METRICS, ids=[row[2] for row in METRICS])
def test_metrics_are_shown_beside_their_targets(metric: Any, reported: Any, shown: str) -> None:
    """Each type of metric has its own form of current value and target."""
    result = rows_of(
        "autoscaling/horizontalpodautoscalers",
        apiVersion="autoscaling/v2",
        spec={"metrics": [metric], "scaleTargetRef": {}},
        status={"currentMetrics": [reported] if reported else []},
    )
    assert result[1] == shown


def test_columns_are_described_by_their_fields() -> None:
    """The description of a column is that of its API field."""
    columns = {column.name: column for column in PRINTERS["/pods"].columns}
    assert columns["IP"].description.startswith("podIP address allocated to the pod.")
    assert [c.priority for c in columns.values()] == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert "\n\n" in columns["Age"].description
    assert PRINTERS["storage.k8s.io/volumeattachments"].columns[1].format == "name"
    assert [c.type for c in PRINTERS["batch/cronjobs"].columns[2:5]] == ["string", "boolean", "integer"]
    undescribed = {c.name for key in PRINTERS for c in printer_of(key).columns if not c.description}
    assert undescribed == {"Handler"}


def test_flow_schemas_are_listed_as_they_are_matched() -> None:
    """Flow schemas are sorted by matching precedence and then by name."""
    created = [{"metadata": {"name": n}, "spec": {"matchingPrecedence": p}} for n, p in (("b", 5), ("c", 1), ("a", 5))]
    arranged = PRINTERS["flowcontrol.apiserver.k8s.io/flowschemas"].arranged(created)
    assert [obj["metadata"]["name"] for obj in arranged] == ["c", "a", "b"]
    assert PRINTERS["/pods"].arranged(created) is created


def test_scales_have_columns_of_their_own() -> None:
    """A Scale has columns for desired and available replicas and age."""
    assert rows_of("/scale", spec={"replicas": 3}, status={"replicas": 1}) == [3, 1, "60s"]
    assert PRINTERS["/scale"].columns[0].format == ""


def test_events_tell_of_their_series() -> None:
    """Last seen and count come from the series of an event, if it has one."""
    event = {
        "metadata": META,
        "involvedObject": {"kind": "Pod", "name": "p"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "series": {"count": 5, "lastObservedTime": "2026-01-01T00:59:50.000000Z"},
        "reportingComponent": "c",
        "reportingInstance": "c-1",
    }
    cells = PRINTERS["/events"].cells(event, NOW)
    assert (cells[0], cells[3], cells[5], cells[7], cells[8]) == ("10s", "pod/p", "c, c-1", "60m", 5)


def test_revisions_name_their_owner() -> None:
    """A ControllerRevision shows its controller as kind, group and name."""
    owner = {"controller": True, "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
    revision = {"metadata": {**META, "ownerReferences": [owner]}, "revision": 1}
    assert PRINTERS["apps/controllerrevisions"].cells(revision, NOW)[1] == "statefulset.apps/web"


def test_the_name_of_a_default_class_is_marked() -> None:
    """The name of a default class ends with "(default)"."""
    notes = {"storageclass.kubernetes.io/is-default-class": "true"}
    tree = {"metadata": {**META, "annotations": notes}, "provisioner": "p"}
    row = PRINTERS["storage.k8s.io/storageclasses"].cells(tree, NOW)
    assert row == ["x (default)", "p", "Delete", "Immediate", False, "60s"]
    for expected, name in (("true", "x (default)"), ("false", "x")):
        notes = {"ingressclass.kubernetes.io/is-default-class": expected}
        row = PRINTERS["networking.k8s.io/ingressclasses"].cells({"metadata": {**META, "annotations": notes}}, NOW)
        assert row[0] == name
