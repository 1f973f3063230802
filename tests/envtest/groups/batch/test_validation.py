"""Jobs: failure and success policies, and indexes."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, wrong

POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
JOB: JsonObject = {"spec": {"template": POD, "completions": 3, "parallelism": 1, "completionMode": "Indexed"}}
RULES, FIRST = "spec.podFailurePolicy.rules", "spec.podFailurePolicy.rules[0]"
CODES = {"operator": "In", "values": [1, 2]}


def failing(**rule: Any) -> JsonObject:
    """A job with one rule for its failures."""
    return changed(JOB, "spec.podFailurePolicy", {"rules": [rule]})


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ({"action": "FailJob", "onExitCodes": CODES}, []),
        ({"action": "FailJob"},
         [f"{FIRST}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"]),
        ({"action": "FailJob", "onExitCodes": CODES, "onPodConditions": [{"type": "a", "status": "True"}]},
         [f"{FIRST}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"]),
        ({"action": "", "onExitCodes": CODES},
         [f'{FIRST}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]']),
        ({"action": "Odd", "onExitCodes": CODES},
         [f'{FIRST}.action: Unsupported value: "Odd": supported values: "Count", "FailIndex", "FailJob", "Ignore"']),
        ({"action": "FailIndex", "onExitCodes": CODES},
         [f'{FIRST}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set']),
        ({"action": "Count", "onExitCodes": {**CODES, "containerName": "x"}},
         [(f'{FIRST}.onExitCodes.containerName: Invalid value: "x": must be one of the container or initContainer names'
          " in the pod template")]),
        ({"action": "Count", "onExitCodes": {"operator": "In", "values": []}},
         [f"{FIRST}.onExitCodes.values: Invalid value: null: at least one value is required"]),
        ({"action": "Count", "onExitCodes": {"operator": "In", "values": [0]}},
         [f"{FIRST}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"]),
        ({"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [2, 1, 1]}},
         [f"{FIRST}.onExitCodes.values[2]: Duplicate value: 1",
          f"{FIRST}.onExitCodes.values: Invalid value: [2,1,1]: must be ordered"]),
        ({"action": "Count", "onExitCodes": {"operator": "", "values": [1]}},
         [f'{FIRST}.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]']),
        ({"action": "Count", "onPodConditions": [{"type": "a", "status": "Maybe"}]},
         [(f'{FIRST}.onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True",'
          ' "Unknown"')]),
    ],
)  # fmt: skip
def test_a_failure_rule_has_exit_codes_or_conditions(rule: JsonObject, found: list[str]) -> None:
    """A rule of a pod failure policy has either exit codes or pod conditions."""
    assert wrong("batch/jobs", failing(**rule)) == found


def test_there_are_not_too_many_rules() -> None:
    """A policy has at most twenty rules; with one, only failed pods are replaced."""
    many = changed(JOB, "spec.podFailurePolicy", {"rules": [{"action": "Count", "onExitCodes": CODES}] * 21})
    assert wrong("batch/jobs", many) == [f"{RULES}: Too many: 21: must have at most 20 items"]
    other = changed(failing(action="Count", onExitCodes=CODES), "spec.podReplacementPolicy", "TerminatingOrFailed")
    text = 'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"'
    assert wrong("batch/jobs", other) == [text]


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("spec.successPolicy", {"rules": [{"succeededCount": 1}]}, []),
        ("spec.successPolicy", {"rules": [{"succeededIndexes": "0-1,2"}]}, []),
        ("spec.successPolicy", {"rules": []},
         [("spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is"
          " specified")]),
        ("spec.successPolicy", {"rules": [{}]},
         [("spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be"
          " specified")]),
        ("spec.successPolicy", {"rules": [{"succeededCount": 4}]},
         [("spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number"
          " of specified completions)")]),
        ("spec.managedBy", "example.com/me", []),
        ("spec.managedBy", "me",
         ['spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")']),
        ("spec.managedBy", "a.b/" + "x" * 60, ["spec.managedBy: Too long: may not be more than 63 bytes"]),
        ("spec.parallelism", 100_001,
         [("spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is"
          " Indexed")]),
        ("spec.maxFailedIndexes", 4,
         ["spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
          "spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions"]),
    ],
)  # fmt: skip
def test_success_policies_and_index_limits_are_validated(path: str, value: Any, found: list[str]) -> None:
    """Each invalid success policy or index limit of a job is an error."""
    assert wrong("batch/jobs", changed(JOB, path, value)) == found


def test_many_indices_need_limits() -> None:
    """A job with more than 100,000 indexes needs limits for failures and parallelism."""
    job = changed(changed(JOB, "spec.completions", 100_001), "spec.backoffLimitPerIndex", 1)
    assert wrong("batch/jobs", job) == [
        "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"
    ]


def test_job_templates_of_cron_jobs_are_validated() -> None:
    """The job template of a CronJob is validated like a job, with its longer path."""
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": failing(action="Count")["spec"]}}
    [text] = wrong("batch/cronjobs", {"spec": spec})
    assert text.startswith(f"spec.jobTemplate.{FIRST}: Invalid value: specifying one of")
