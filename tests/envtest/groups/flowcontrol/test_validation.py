"""Priority levels and flow schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.data.flowcontrol import fixed_flow
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, wrong

LEVELS = "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations"
SCHEMAS = "flowcontrol.apiserver.k8s.io/flowschemas"
LEVEL: JsonObject = {
    "spec": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 10,
            "limitResponse": {
                "type": "Queue",
                "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50},
            },
        },
    }
}
METHOD = "spec.distinguisherMethod.type"
LIMITED, QUEUING = "spec.limited", "spec.limited.limitResponse.queuing"


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("spec.type", "Limited", []),
        ("spec.type", "Free", ['spec.type: Unsupported value: "Free": supported values: "Exempt", "Limited"']),
        (LIMITED, None, [f"{LIMITED}: Required value: must not be empty when type is Limited"]),
        (f"{LIMITED}.lendablePercent", 101,
         [f"{LIMITED}.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"]),
        (f"{LIMITED}.borrowingLimitPercent", -1,
         [f"{LIMITED}.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer"]),
        (f"{LIMITED}.limitResponse.type", "Reject",
         [f"{QUEUING}: Forbidden: must be nil if limited.limitResponse.type is not Limited"]),
        (f"{LIMITED}.limitResponse.type", "Wait",
         [f'{LIMITED}.limitResponse.type: Unsupported value: "Wait": supported values: "Queue", "Reject"']),
        (f"{QUEUING}.queues", -1, [f"{QUEUING}.queues: Invalid value: -1: must be positive",
                                   f"{QUEUING}.handSize: Invalid value: 8: should not be greater than queues (-1)"]),
        (f"{QUEUING}.queues", 10_000_001,
         [f"{QUEUING}.queues: Invalid value: 10000001: must not be greater than 10000000"]),
        (f"{QUEUING}.handSize", 20,
         [(f"{QUEUING}.handSize: Invalid value: 20: required entropy bits of deckSize 64 and handSize 20 should not be"
          " greater than 60")]),
        (f"{QUEUING}.queueLengthLimit", -1, [f"{QUEUING}.queueLengthLimit: Invalid value: -1: must be positive"]),
        ("spec.exempt", {}, ["spec.exempt: Forbidden: must be nil if the type is Limited"]),
    ],
)  # fmt: skip
def test_priority_level_errors_name_the_field(path: str, value: Any, found: list[str]) -> None:
    """Each invalid type, queue, hand size or share of a priority level is an error."""
    assert wrong(LEVELS, changed(LEVEL, path, value)) == found


@given(queues=st.integers(1, 10_000_000), hand=st.integers(1, 10))
def test_a_hand_is_dealt_only_from_a_deck(queues: int, hand: int) -> None:
    """A hand is at most the number of queues, and its entropy at most sixty bits."""
    tree = changed(changed(LEVEL, f"{QUEUING}.queues", queues), f"{QUEUING}.handSize", hand)
    fits = hand <= queues and (queues ** min(hand, 10)).bit_length() <= 60
    assert not fits or wrong(LEVELS, tree) == []
    assert hand <= queues or wrong(LEVELS, tree) != []


SCHEMA: JsonObject = {
    "spec": {
        "matchingPrecedence": 100,
        "priorityLevelConfiguration": {"name": "p"},
        "rules": [
            {
                "subjects": [{"kind": "User", "user": {"name": "u"}}],
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["*"]}],
            }
        ],
    }
}
RULE, SUBJECT = "spec.rules.0", "spec.rules.0.subjects.0"
AT, FIRST, OTHER = "spec.rules[0]", "resourceRules[0]", "nonResourceRules[0]"


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("spec.matchingPrecedence", 100, []),
        ("spec.matchingPrecedence", -1, ["spec.matchingPrecedence: Invalid value: -1: must be a positive value"]),
        ("spec.matchingPrecedence", 1,
         ["spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"]),
        ("spec.distinguisherMethod", {"type": "ByMood"},
         [f'{METHOD}: Unsupported value: {{"Type":"ByMood"}}: supported values: "ByNamespace", "ByUser"']),
        (f"{RULE}.subjects", [], [f"{AT}.subjects: Required value: subjects must contain at least one value"]),
        (SUBJECT + ".user", None,
         [f"{AT}.subjects[0].user: Required value: user is required when subject kind is 'User'"]),
        (SUBJECT + ".group", {"name": "g"},
         [f"{AT}.subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'"]),
        (f"{RULE}.subjects", [{"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": ""}}],
         [f"{AT}.subjects[0].serviceAccount.namespace: Required value: must specify namespace for service account"]),
        (f"{RULE}.resourceRules.0.verbs", [],
         [f"{AT}.{FIRST}.verbs: Required value: verbs must contain at least one value"]),
        (f"{RULE}.resourceRules.0.verbs", ["*", "get"],
         [f'{AT}.{FIRST}.verbs: Invalid value: ["*","get"]: if \'*\' is present, must not specify other verbs']),
        (f"{RULE}.resourceRules.0.apiGroups", [],
         [f"{AT}.{FIRST}.apiGroups: Required value: resource rules must supply at least one api group"]),
        (f"{RULE}.resourceRules.0.namespaces", [],
         [(f"{AT}.{FIRST}.namespaces: Required value: resource rules that are not cluster scoped must supply at"
          " least one namespace")]),
        (f"{RULE}.nonResourceRules.0.nonResourceURLs", [],
         [f"{AT}.{OTHER}.nonResourceURLs: Required value: nonResourceURLs must contain at least one value"]),
    ],
)  # fmt: skip
def test_flow_schema_errors_name_the_field(path: str, value: Any, found: list[str]) -> None:
    """Each invalid precedence, subject or rule of a flow schema is an error."""
    assert wrong(SCHEMAS, changed(SCHEMA, path, value)) == found


def test_verbs_of_a_rule_are_known() -> None:
    """A rule with an unknown verb is an error."""
    [text] = wrong(SCHEMAS, changed(SCHEMA, f"{RULE}.resourceRules.0.verbs", ["brew"]))
    assert text.startswith(f'{AT}.{FIRST}.verbs: Unsupported value: ["brew"]: supported values: "create"')


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("/", ""),
        ("/a/*", ""),
        ("*", ""),
        ("", "must not be empty"),
        ("a", "must start with slash"),
        ("/a b", "must not contain white-space"),
        ("/a//b", "must not contain double slash"),
        ("/*/b", "wildcard can only do suffix matching"),
        ("/a*", "wildcard can only do suffix matching"),
        ("/*/*", "wildcard can only do suffix matching"),
    ],
)
def test_nonresource_urls_are_absolute_with_a_final_wildcard(url: str, why: str) -> None:
    """A nonResourceURL starts with a slash, and has a wildcard only as its last segment."""
    path = f"{AT}.{OTHER}.nonResourceURLs"
    expected = [f'{path}[0]: Invalid value: "{url}": {why}'] if why else []
    assert wrong(SCHEMAS, changed(SCHEMA, f"{RULE}.nonResourceRules.0.nonResourceURLs", [url])) == expected


@pytest.mark.parametrize("resource", [LEVELS, SCHEMAS])
def test_mandatory_objects_have_a_fixed_spec(resource: str) -> None:
    """The mandatory objects exempt and catch-all accept only their fixed spec."""
    kind = resource.rpartition("/")[2]
    for name in ("exempt", "catch-all"):
        spec = fixed_flow(kind, name)
        assert spec is not None
        tree = {"metadata": {"name": name}, "spec": spec}
        assert wrong(resource, tree) == []
        other = (
            changed(tree, "spec.limited.nominalConcurrencyShares", 7)
            if kind[0] == "p"
            else changed(tree, "spec.matchingPrecedence", 7)
        )
        assert any("must equal the fixed value" in text for text in wrong(resource, other))


def test_the_exempt_level_may_be_sized() -> None:
    """Only ``spec.exempt`` of the exempt level can change."""
    tree = {"metadata": {"name": "exempt"}, "spec": fixed_flow("prioritylevelconfigurations", "exempt")}
    assert wrong(LEVELS, changed(tree, "spec.exempt.nominalConcurrencyShares", 9)) == []
    [share] = wrong(LEVELS, changed(tree, "spec.exempt.lendablePercent", 101))
    assert share == "spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"
    limited = changed(tree, "spec.type", "Limited")
    errors = wrong(LEVELS, limited)
    assert errors[0] == "spec.type: Invalid value: \"Limited\": must be 'Exempt' if and only if `name` is 'exempt'"
    printed = '{"Type":"Limited","Limited":null,"Exempt":{"NominalConcurrencyShares":0,"LendablePercent":0}}'
    but = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
    assert errors[-1] == f"spec: Invalid value: {printed}: {but}"
