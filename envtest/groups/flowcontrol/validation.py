"""Validation of PriorityLevelConfigurations and FlowSchemas.

Upstream: pkg/apis/flowcontrol/validation (v1.36)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from envtest.codec.go_structs import NullablePart, Shape, as_go
from envtest.data.flowcontrol import fixed_flow
from envtest.groups.common import validation
from opsdk.apimachinery.validation import dns_label
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_MOST_QUEUES: Final = 10_000_000
_MOST_BITS: Final = 60
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SHARES: Final = "must be a non-negative integer"
_LEVEL: Final[Shape] = {
    "Type": "",
    "Limited": NullablePart(
        {
            "NominalConcurrencyShares": 0,
            "LimitResponse": {"Type": "", "Queuing": NullablePart({"Queues": 0, "HandSize": 0, "QueueLengthLimit": 0})},
            "LendablePercent": None,
            "BorrowingLimitPercent": None,
        }
    ),
    "Exempt": NullablePart({"NominalConcurrencyShares": None, "LendablePercent": None}),
}
_METHOD: Final[Shape] = {"Type": ""}
_NAMED: Final = NullablePart({"Name": ""})
_SCHEMA: Final[Shape] = {
    "PriorityLevelConfiguration": {"Name": ""},
    "MatchingPrecedence": 0,
    "DistinguisherMethod": NullablePart(_METHOD),
    "Rules": NullablePart(
        {
            "Subjects": NullablePart(
                {
                    "Kind": "",
                    "User": _NAMED,
                    "Group": _NAMED,
                    "ServiceAccount": NullablePart({"Namespace": "", "Name": ""}),
                }
            ),
            "ResourceRules": NullablePart(
                {"Verbs": None, "APIGroups": None, "Resources": None, "ClusterScope": False, "Namespaces": None}
            ),
            "NonResourceRules": NullablePart({"Verbs": None, "NonResourceURLs": None}),
        }
    ),
}
_SUBJECTS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}


def _validate_mandatory_spec(obj: JsonObject, resource: str, shape: Shape) -> Iterator[Cause]:
    """Validate that mandatory objects keep their spec."""
    name = obj["metadata"].get("name", "")
    expected = fixed_flow(resource, name)
    if expected is None:
        return
    but, have, spec = "", as_go(shape, obj.get("spec") or {}), as_go(shape, expected)
    actual = have
    if name == "exempt" and resource != "flowschemas":
        but, have = " except the 'spec.exempt' field", {**have, "Exempt": spec["Exempt"]}
    if have != spec:
        yield api_errors.invalid_value("spec", actual, f"spec of '{name}'{but} must equal the fixed value")


def _status(obj: JsonObject) -> Iterator[Cause]:
    types: set[str] = set()
    for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        type_path, kind = f"status.conditions[{index}].type", condition.get("type") or ""
        if kind in types:
            yield api_errors.duplicate(type_path, kind)
        types.add(kind)
        yield from validation.required(kind, type_path, "must not be empty")


def validate_flow_status(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate the conditions of a FlowSchema or PriorityLevelConfiguration."""
    yield from _status(obj)


# ------------------------------------------------------------------ levels
def validate_priority_level(obj: JsonObject) -> Iterator[Cause]:
    """Validate a PriorityLevelConfiguration."""
    name = obj["metadata"].get("name", "")
    spec = obj.get("spec") or {}
    kind = spec.get("type", "")
    if (name == "exempt") != (kind == "Exempt"):
        yield api_errors.invalid_value("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind not in ("Exempt", "Limited"):
        yield api_errors.unsupported("spec.type", kind, ("Exempt", "Limited"))
    elif kind == "Exempt":
        if spec.get("limited") is not None:
            yield api_errors.not_allowed("spec.limited", "must be nil if the type is not Limited")
        exempt = spec.get("exempt") or {}
        path = "spec.exempt"
        shares, lendable = exempt.get("nominalConcurrencyShares") or 0, exempt.get("lendablePercent") or 0
        if shares < 0:
            yield api_errors.invalid_value(f"{path}.nominalConcurrencyShares", shares, _SHARES)
        yield from validation.in_range(lendable, 0, 100, f"{path}.lendablePercent")
    else:
        if spec.get("exempt") is not None:
            yield api_errors.not_allowed("spec.exempt", "must be nil if the type is Limited")
        if spec.get("limited") is None:
            yield api_errors.required("spec.limited", "must not be empty when type is Limited")
        else:
            yield from _limited(spec["limited"], "spec.limited")
    yield from _validate_mandatory_spec(obj, "prioritylevelconfigurations", _LEVEL)
    yield from _status(obj)


def _limited(limited: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a limited priority level."""
    shares = limited.get("nominalConcurrencyShares") or 0
    if shares < 0:
        yield api_errors.invalid_value(f"{path}.nominalConcurrencyShares", shares, _SHARES)
    response = limited.get("limitResponse") or {}
    limit_response_path = f"{path}.limitResponse"
    kind, queuing = response.get("type", ""), response.get("queuing")
    match kind:
        case "Reject":
            if queuing is not None:
                text = "must be nil if limited.limitResponse.type is not Limited"
                yield api_errors.not_allowed(f"{limit_response_path}.queuing", text)
        case "Queue":
            if queuing is None:
                text = "must not be empty if limited.limitResponse.type is Limited"
                yield api_errors.required(f"{limit_response_path}.queuing", text)
            else:
                yield from _queuing(queuing, f"{limit_response_path}.queuing")
        case _:
            yield api_errors.unsupported(f"{limit_response_path}.type", kind, ("Queue", "Reject"))
    lendable = limited.get("lendablePercent")
    if lendable is not None and not 0 <= lendable <= 100:
        yield api_errors.invalid_value(f"{path}.lendablePercent", lendable, "must be between 0 and 100, inclusive")
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        text = "if specified, must be a non-negative integer"
        yield api_errors.invalid_value(f"{path}.borrowingLimitPercent", borrowing, text)


def _queuing(queuing: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the queues of a priority level."""
    length, queues, hand = (queuing.get(key) or 0 for key in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        yield api_errors.invalid_value(f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        yield api_errors.invalid_value(f"{path}.queues", queues, "must be positive")
    elif queues > _MOST_QUEUES:
        yield api_errors.invalid_value(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}")
    if hand <= 0:
        yield api_errors.invalid_value(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        text = f"should not be greater than queues ({queues})"
        yield api_errors.invalid_value(f"{path}.handSize", hand, text)
    elif (
        hand <= 100
        and queues <= _MOST_QUEUES
        and math.ceil(sum(math.log2(queues - dealt) for dealt in range(hand))) > _MOST_BITS
    ):
        text = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_MOST_BITS}"
        yield api_errors.invalid_value(f"{path}.handSize", hand, text)


# ------------------------------------------------------------------ schemas
def validate_flow_schema(obj: JsonObject) -> Iterator[Cause]:
    """Validate a FlowSchema."""
    spec = obj.get("spec") or {}
    precedence = spec.get("matchingPrecedence") or 0
    if precedence <= 0:
        yield api_errors.invalid_value("spec.matchingPrecedence", precedence, "must be a positive value")
    if precedence > 10_000:
        yield api_errors.invalid_value("spec.matchingPrecedence", precedence, "must not be greater than 10000")
    if precedence == 1 and obj["metadata"].get("name") != "exempt":
        text = "only the schema named 'exempt' may have matchingPrecedence 1"
        yield api_errors.invalid_value("spec.matchingPrecedence", precedence, text)
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in ("ByNamespace", "ByUser"):
        rendered = as_go(_METHOD, method)
        yield api_errors.unsupported("spec.distinguisherMethod.type", rendered, ("ByNamespace", "ByUser"))
    name = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
    if not name:
        yield api_errors.required("spec.priorityLevelConfiguration.name", "must reference a priority level")
    else:
        yield from validation.subdomain(name, "spec.priorityLevelConfiguration.name")
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _rule(rule, f"spec.rules[{index}]")
    yield from _validate_mandatory_spec(obj, "flowschemas", _SCHEMA)
    yield from _status(obj)


def _rule(rule: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a rule of a flow schema."""
    if not rule.get("subjects"):
        yield api_errors.required(f"{path}.subjects", "subjects must contain at least one value")
    for index, subject in enumerate(rule.get("subjects") or ()):
        yield from _subject(subject, f"{path}.subjects[{index}]")
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        yield api_errors.required(path, text)
    for index, inner in enumerate(rule.get("resourceRules") or ()):
        yield from _resource_rule(inner, f"{path}.resourceRules[{index}]")
    for index, inner in enumerate(rule.get("nonResourceRules") or ()):
        rule_path = f"{path}.nonResourceRules[{index}]"
        yield from _verbs(inner.get("verbs") or (), f"{rule_path}.verbs")
        urls = inner.get("nonResourceURLs") or ()
        text = "nonResourceURLs must contain at least one value"
        yield from _validate_wildcard(urls, f"{rule_path}.nonResourceURLs", text, "non-resource URLs")
        for number, url in enumerate(urls if "*" not in urls else ()):
            yield from _url(url, f"{rule_path}.nonResourceURLs[{number}]")


def _url(url: str, path: str) -> Iterator[Cause]:
    reason = ""
    if not url:
        reason = "must not be empty"
    elif not url.startswith("/"):
        reason = "must start with slash"
    elif " " in url:
        reason = "must not contain white-space"
    elif "//" in url:
        reason = "must not contain double slash"
    elif url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        reason = "wildcard can only do suffix matching"
    if reason:
        yield api_errors.invalid_value(path, url, reason)


def _subject(subject: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a subject: a part of exactly its kind."""
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        yield api_errors.unsupported(f"{path}.kind", kind, tuple(_SUBJECTS))
        return
    own = _SUBJECTS[kind]
    if subject.get(own) is None:
        yield api_errors.required(f"{path}.{own}", f"{own} is required when subject kind is '{kind}'")
    elif kind == "ServiceAccount":
        account = subject[own]
        key_path = f"{path}.{own}"
        name, namespace = account.get("name", ""), account.get("namespace", "")
        if not name:
            yield api_errors.required(f"{key_path}.name")
        elif name != "*":
            yield from validation.subdomain(name, f"{key_path}.name")
        if not namespace:
            yield api_errors.required(f"{key_path}.namespace", "must specify namespace for service account")
        else:
            yield from validation.label(namespace, f"{key_path}.namespace")
    else:
        yield from validation.required(subject[own].get("name"), f"{path}.{own}.name")
    for other, key in _SUBJECTS.items():
        if key != own and subject.get(key) is not None:
            yield api_errors.not_allowed(f"{path}.{key}", f"{key} is forbidden when subject kind is not '{other}'")


def _validate_wildcard(values: Sequence[str], path: str, missing: str, noun: str) -> Iterator[Cause]:
    if not values:
        yield api_errors.required(path, missing)
    elif "*" in values and len(values) > 1:
        yield api_errors.invalid_value(path, list(values), f"if '*' is present, must not specify other {noun}")


def _verbs(verbs: Sequence[str], path: str) -> Iterator[Cause]:
    yield from _validate_wildcard(verbs, path, "verbs must contain at least one value", "verbs")
    if "*" not in verbs and not set(verbs) <= set(_VERBS):
        yield api_errors.unsupported(path, list(verbs), _VERBS)


def _resource_rule(rule: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a rule for resources."""
    yield from _verbs(rule.get("verbs") or (), f"{path}.verbs")
    for key, one, many in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        text = f"resource rules must supply at least one {one}"
        yield from _validate_wildcard(rule.get(key) or (), f"{path}.{key}", text, many)
    spaces, namespaces_path = rule.get("namespaces") or (), f"{path}.namespaces"
    if not spaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        yield api_errors.required(namespaces_path, text)
    elif "*" in spaces:
        if len(spaces) > 1:
            text = "if '*' is present, must not specify other namespaces"
            yield api_errors.invalid_value(namespaces_path, list(spaces), text)
    else:
        for name in spaces:
            yield from validation.each(dns_label(name), name, namespaces_path)
