"""Disruption budgets: spec and status."""

from __future__ import annotations

from typing import Any

import pytest
from server_caller import Caller

from envtest.environment import Environment
from envtest.groups.policy.validation import validate_budget_status
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, wrong

BUDGETS = "policy/poddisruptionbudgets"
POLICIES = '"AlwaysAllow", "IfHealthyBudget"'
NEEDED = "must be specified when `operator` is 'In' or 'NotIn'"
GOOD: JsonObject = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
TOLD: JsonObject = {
    "status": {
        "disruptionsAllowed": 0,
        "conditions": [
            {
                "type": "DisruptionAllowed",
                "status": "False",
                "reason": "InsufficientPods",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("spec.minAvailable", "30%", []),
        ("spec.minAvailable", "101%", ['minAvailable: Invalid value: "101%": must not be greater than 100%']),
        ("spec.minAvailable", -1, ["minAvailable: Invalid value: -1: must be greater than or equal to 0"]),
        (
            "spec.selector",
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            [f"selector.matchExpressions[0].values: Required value: {NEEDED}"],
        ),
        (
            "spec.unhealthyPodEvictionPolicy",
            "Never",
            [f'unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: {POLICIES}'],
        ),
    ],
)
def test_budget_errors_name_the_field(path: str, value: Any, found: list[str]) -> None:
    """A PodDisruptionBudget needs a valid number or percentage and a valid selector."""
    assert wrong(BUDGETS, changed(GOOD, path, value)) == [f"spec.{text}" for text in found]


def test_labels_of_selectors_are_reported_together() -> None:
    """Errors of keys and values of a selector are at ``matchLabels``."""
    errors = wrong(BUDGETS, changed(GOOD, "spec.selector", {"matchLabels": {"a b": "c d"}}))
    assert [text.partition(": ")[0] for text in errors] == ["spec.selector.matchLabels"] * 2


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("status.disruptionsAllowed", 3, []),
        ("status.disruptionsAllowed", -1, ["disruptionsAllowed: Invalid value: -1"]),
        ("status.conditions.0.reason", "", ["conditions[0].reason: Required value"]),
        ("status.conditions.0.lastTransitionTime", None, ["conditions[0].lastTransitionTime: Required value"]),
        ("status.conditions.0.status", "Maybe", ['conditions[0].status: Unsupported value: "Maybe"']),
        ("status.conditions.0.observedGeneration", -1, ["conditions[0].observedGeneration: Invalid value: -1"]),
    ],
)
def test_what_is_said_of_budgets(path: str, value: Any, found: list[str]) -> None:
    """The counts and conditions of a budget's status are validated."""
    causes = [f"{c.field}: {c.message}" for c in validate_budget_status(changed(TOLD, path, value), TOLD)]
    assert len(causes) == len(found)
    assert all(text.startswith(f"status.{expected}") for text, expected in zip(causes, found, strict=True))


async def test_messages_show_parts_in_the_order_of_their_types() -> None:
    """Messages show fields in the order of their type, not in the client's order."""
    selector = {"matchExpressions": [{"operator": "Exists", "key": "k"}], "matchLabels": {"b": "1", "a": "2"}}
    spec = {"selector": selector, "maxUnavailable": 1, "minAvailable": 1}
    async with Environment() as env:
        url = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        refused = (await Caller(env)("POST", url, {"metadata": {"name": "a"}, "spec": spec})).json
        printed = '{"matchLabels":{"a":"2","b":"1"},"matchExpressions":[{"key":"k","operator":"Exists"}]}'
        assert f'Invalid value: {{"MinAvailable":1,"Selector":{printed},"MaxUnavailable":1,' in refused["message"]
