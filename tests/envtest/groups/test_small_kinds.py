"""Validation of nodes, namespaces, ConfigMaps, Secrets, CronJobs and jobs."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from opsdk.apiserver.registry.context import Context
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, read, row_of, wrong
from tests.envtest.groups.trees import known


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# ------------------------------------------------------------------ nodes
NODES = [
    ({"spec": {"podCIDRs": ["x"]}},
     ['spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)']),
    ({"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}},
     [('spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP'
       " family")]),
    ({"status": {"capacity": {"pods": "1500m"}, "allocatable": {"pods": "1"}}},
     ['status.capacity.pods: Invalid value: "1500m": must be an integer']),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "found"), NODES)
def test_node_errors_name_the_field(tree: JsonObject, found: list[str]) -> None:
    """A node has one pod CIDR for each IP family, and whole numbers of extended resources."""
    assert wrong("/nodes", tree) == found


def test_node_update_errors_are_reported_twice() -> None:
    """Errors of a node update occur twice, as upstream reports them; externalID is immutable."""
    tree = {"spec": {"taints": [{"key": "a", "effect": "Odd"}]}}
    errors = wrong("/nodes", tree, {})
    assert len(errors) == 2
    assert errors[0] == errors[1]
    assert wrong("/nodes", {"spec": {"externalID": "x"}}, {}) == ["spec.externalID: Forbidden: may not be updated"]


# ------------------------------------------------------------------ namespaces
def test_namespace_finalizers_are_standard_or_qualified() -> None:
    """A namespace finalizer is a standard name or has a domain."""
    text = "name is neither a standard finalizer name nor is it fully qualified"
    assert wrong("/namespaces", {"spec": {"finalizers": ["mine"]}}) == [
        f'spec.finalizers: Invalid value: "mine": {text}'
    ]
    assert not wrong("/namespaces", {"spec": {"finalizers": ["example.com/mine"]}})


# ------------------------------------------------------------------ configuration
KEYS = [
    ("a b", "a valid config key must consist of alphanumeric characters"),
    ("..", "must not be '..'"),
    ("..x", "must not start with '..'"),
    ("x" * 254, "must be no more than 253 characters"),
]


@pytest.mark.parametrize("kind", ["/configmaps", "/secrets"])
@pytest.mark.parametrize(("key", "text"), KEYS)
def test_configmap_and_secret_keys_are_file_names(kind: str, key: str, text: str) -> None:
    """Keys of ConfigMaps and Secrets are valid file names."""
    [errors] = wrong(kind, {"data": {key: _coded("v")}})
    assert errors.startswith(f'data[{key}]: Invalid value: "{key}": {text}')


def test_duplicate_configmap_keys_are_errors() -> None:
    """A key in both data and binaryData is an error, in addition to errors of its name."""
    errors = wrong("/configmaps", {"data": {"a": "1", "b ": "2"}, "binaryData": {"a": "AA==", "b ": "AA=="}})
    assert [text.partition(":")[0] for text in errors] == ["data[a]", "data[b ]", "data[b ]", "binaryData[b ]"]


SECRETS = [
    ("kubernetes.io/ssh-auth", {"ssh-privatekey": ""}, ["data[ssh-privatekey]: Required value"]),
    ("kubernetes.io/dockercfg", {".dockercfg": _coded("[]")},
     [('data[.dockercfg]: Invalid value: "<secret contents redacted>": json: cannot unmarshal array into Go value of'
       " type map[string]interface {}")]),
    ("kubernetes.io/dockercfg", {".dockercfg": _coded("null")}, []),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "data", "found"), SECRETS)
def test_secret_types_require_keys(kind: str, data: JsonObject, found: list[str]) -> None:
    """A Secret has the keys that its type requires."""
    assert wrong("/secrets", {"type": kind, "data": data}) == found


# ------------------------------------------------------------------ jobs
TEMPLATE: JsonObject = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
CRON: JsonObject = {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}}
CRONS = [
    ("spec.schedule", "TZ=UTC * * * * *",
     [('spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field'
      " instead")]),
    ("spec.jobTemplate.spec.selector", {"matchLabels": {"a": "b"}},
     ['spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be auto-generated']),
    ("spec.jobTemplate.spec.manualSelector", True,
     ['spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"']),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "found"), CRONS)
def test_cron_job_errors_name_the_field(path: str, value: Any, found: list[str]) -> None:
    """Each invalid field of a CronJob is an error at its path."""
    assert wrong("batch/cronjobs", changed(CRON, path, value)) == found


def test_a_schedule_with_time_zone_may_stay() -> None:
    """An existing schedule with TZ may stay, but not together with timeZone."""
    old = changed(CRON, "spec.schedule", "TZ=UTC * * * * *")
    assert not wrong("batch/cronjobs", old, old)
    [text] = wrong("batch/cronjobs", changed(old, "spec.timeZone", "UTC"), old)
    assert text.endswith("cannot use both timeZone field and TZ or CRON_TZ in schedule")


def test_indexed_job_names_leave_room_for_the_index() -> None:
    """The name of an Indexed job leaves room for the largest index in a pod's hostname."""
    spec = {"completionMode": "Indexed", "completions": 11, "template": TEMPLATE}
    name = "a" * 61
    text = f"will not able to create pod with invalid DNS label: {name}-10"
    errors = wrong("batch/jobs", {"metadata": {"name": name}, "spec": spec})
    assert errors == [f'metadata.name: Invalid value: "{name}": {text}']


WAITS: JsonObject = {"suspend": True, "selector": {}, "template": TEMPLATE}
RESTS: JsonObject = {"startTime": "2024-01-02T03:04:05Z", "conditions": [{"type": "Suspended", "status": "True"}]}
PLACES = [
    ("metadata.labels", {"a": "b"}),
    ("spec.nodeSelector", {"a": "b"}),
    ("spec.tolerations", [{"operator": "Exists"}]),
    ("spec.affinity", {"nodeAffinity": {}}),
]
AMOUNTS = [("spec.containers.0.resources", {"limits": {"cpu": "1"}})]
FIXED = [("spec.affinity", {"podAffinity": {}}), ("spec.containers.0.image", "other"), ("spec.hostNetwork", True)]


@pytest.mark.parametrize(
    ("spec", "status", "free"),
    [
        ({"suspend": False}, {}, []),
        ({}, {}, PLACES),
        ({}, RESTS, PLACES + AMOUNTS),
        ({"suspend": False}, RESTS, []),
        ({}, {**RESTS, "active": 1}, []),
        ({}, {"startTime": RESTS["startTime"]}, []),
    ],
)  # fmt: skip
def test_suspended_jobs_may_change_scheduling_and_resources(
    spec: JsonObject, status: JsonObject, free: list[Any]
) -> None:
    """A suspended job may change scheduling fields before it starts, and resources once its suspension is reported."""
    old = {"spec": {**WAITS, **spec}, "status": status}
    for path, value in PLACES + AMOUNTS + FIXED:
        errors = wrong("batch/jobs", changed(old, f"spec.template.{path}", value), old)
        assert any(text.startswith("spec.template: ") for text in errors) != ((path, value) in free), (path, value)


def test_the_start_time_of_a_running_job_is_immutable() -> None:
    """The start time of a job that is not suspended is immutable."""
    began, later = "2024-01-02T03:04:05Z", "2024-01-02T03:04:06Z"
    strategy: Any = known().strategy(row_of("batch/jobs"), has_status=True)
    status = {"startTime": began}
    for spec, old, fixed in (({}, status, True), ({"suspend": True}, status, False), ({}, RESTS, False)):
        for new in (later, None):
            trees = [
                {"spec": spec, "status": tree} for tree in ({**old, "startTime": new}, {**old, "startTime": began})
            ]
            result = [f"{c.field}: {c.message}" for c in strategy.validate_status(Context(), *trees)]
            printed = "null" if new is None else f'"{new}"'
            text = f"status.startTime: Invalid value: {printed}: field is immutable for unsuspended job once set"
            assert result == ([text] if fixed else [])


def test_success_criteria_precede_completion() -> None:
    """A complete job cannot get the condition SuccessCriteriaMet."""
    strategy: Any = known().strategy(row_of("batch/jobs"), has_status=True)
    ended = [{"type": "Complete", "status": "True"}]
    late = [*ended, {"type": "SuccessCriteriaMet", "status": "True"}]
    began = {"startTime": RESTS["startTime"], "completionTime": RESTS["startTime"]}
    trees = [{"spec": {}, "status": {**began, "conditions": item}} for item in (late, ended)]
    result = [f"{c.field}: {c.message}" for c in strategy.validate_status(Context(), *trees)]
    text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
    assert result == [f"status.conditions: Invalid value: {text}"]


# ------------------------------------------------------------------ events
def test_events_with_event_time_need_a_reporter() -> None:
    """An event with eventTime needs a reporting instance of at most 128 characters."""
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    event = {
        "involvedObject": about, "eventTime": "2024-01-02T03:04:05.000000Z", "reportingComponent": "a/b",
        "reportingInstance": "i" * 129, "action": "A", "reason": "R",
    }  # fmt: skip
    assert wrong("/events", event) == ['repotingIntance: Invalid value: "": can have at most 128 characters']
    assert wrong("/events", {**event, "reportingInstance": ""}) == ["reportingInstance: Required value"]


# ------------------------------------------------------------------ nodes once more
def test_one_block_stands_for_the_many() -> None:
    """The field podCIDR is the first of podCIDRs, and wins if they differ."""
    spec = read("/nodes", {"spec": {"podCIDRs": ["10.0.0.0/24"]}})["spec"]
    assert spec == {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}
    spec = read("/nodes", {"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.0.0/24"]}})["spec"]
    assert spec["podCIDRs"] == ["10.0.1.0/24"]
