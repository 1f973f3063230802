"""When jobs fail early, and when they succeed early: what their policies may say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from envtest.kinds import rules
from envtest.kinds.address_rules import domain_path
from envtest.kinds.go_form import BATCH, shown
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_MOST_INDEXES: Final = 100_000
_MOST_AT_ONCE: Final = 10_000
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_STATES: Final = ("False", "True", "Unknown")
_OPERATORS: Final = ("In", "NotIn")


def _omitted(path: str, text: str) -> Cause:
    """A value that is not shown."""
    return Cause(reason="FieldValueInvalid", message=f"Invalid value: {text}", field=path)


def _word(value: str, allowed: Sequence[str], path: str) -> Iterator[Cause]:
    if not value:
        listed = " ".join(api_errors.quoted(word) for word in allowed)
        yield api_errors.required(path, f"valid values: [{listed}]")
    elif value not in allowed:
        yield api_errors.unsupported(path, value, allowed)


def validate_job_policies(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Everything of a job's spec that is about its failures and successes."""
    if spec.get("podFailurePolicy") is not None:
        yield from _failures(spec, f"{path}.podFailurePolicy.rules")
    if spec.get("successPolicy") is not None:
        yield from _successes(spec, f"{path}.successPolicy")


def validate_manager(spec: JsonObject, path: str) -> Iterator[Cause]:
    """Who looks after the job."""
    if spec.get("managedBy") is not None:
        yield from domain_path(spec["managedBy"], f"{path}.managedBy")
        if len(spec["managedBy"]) > 63:
            yield api_errors.too_long(f"{path}.managedBy", 63)


# ------------------------------------------------------------------ failures
def _failures(spec: JsonObject, path: str) -> Iterator[Cause]:
    found = spec["podFailurePolicy"].get("rules") or []
    if len(found) > _MOST_RULES:
        yield api_errors.too_many(path, len(found), _MOST_RULES)
    pod = (spec.get("template") or {}).get("spec") or {}
    known = {c.get("name", "") for key in ("containers", "initContainers") for c in pod.get(key) or ()}
    for index, rule in enumerate(found):
        yield from _failure(rule, f"{path}[{index}]", known, by_index=spec.get("backoffLimitPerIndex") is not None)


def _failure(rule: JsonObject, path: str, known: set[str], *, by_index: bool) -> Iterator[Cause]:
    action = rule.get("action", "")
    if action == "FailIndex" and not by_index:
        yield api_errors.invalid_value(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    yield from _word(action, _ACTIONS, f"{path}.action")
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        yield from _codes(codes, f"{path}.onExitCodes", known)
    if len(conditions) > _MOST_RULES:
        yield api_errors.too_many(f"{path}.onPodConditions", len(conditions), _MOST_RULES)
    for index, pattern in enumerate(conditions):
        at, kind = f"{path}.onPodConditions[{index}]", pattern.get("type", "")
        yield from rules.each(validation.qualified_name(kind), kind, f"{at}.type")
        yield from _word(pattern.get("status", ""), _STATES, f"{at}.status")
    if codes is not None and conditions:
        yield _omitted(path, "specifying both OnExitCodes and OnPodConditions is not supported")
    elif codes is None and not conditions:
        yield _omitted(path, "specifying one of OnExitCodes and OnPodConditions is required")


def _codes(found: JsonObject, path: str, known: set[str]) -> Iterator[Cause]:
    operator, values = found.get("operator", ""), found.get("values") or []
    yield from _word(operator, _OPERATORS, f"{path}.operator")
    name = found.get("containerName")
    if name is not None and name not in known:
        text = "must be one of the container or initContainer names in the pod template"
        yield api_errors.invalid_value(f"{path}.containerName", name, text)
    at = f"{path}.values"
    if not values:
        yield api_errors.invalid_value(at, values or None, "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield api_errors.too_many(at, len(values), _MOST_CODES)
    for index, value in enumerate(values):
        if value == 0 and operator == "In":
            yield api_errors.invalid_value(f"{at}[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield api_errors.duplicate(f"{at}[{index}]", value)
    if values != sorted(values):
        yield api_errors.invalid_value(at, values, "must be ordered")


# ------------------------------------------------------------------ successes
def _successes(spec: JsonObject, path: str) -> Iterator[Cause]:
    found = spec["successPolicy"].get("rules") or []
    if spec.get("completionMode") != "Indexed":
        value = shown(f"{BATCH}SuccessPolicy", spec["successPolicy"])
        yield api_errors.invalid_value(path, value, "requires indexed completion mode")
        return
    if not found:
        text = "at least one rules must be specified when the successPolicy is specified"
        yield api_errors.required(f"{path}.rules", text)
    elif len(found) > _MOST_RULES:
        yield api_errors.too_many(f"{path}.rules", len(found), _MOST_RULES)
    for index, rule in enumerate(found):
        yield from _success(rule, f"{path}.rules[{index}]", spec.get("completions"))


def _success(rule: JsonObject, path: str, completions: int | None) -> Iterator[Cause]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        yield api_errors.required(path, text)
    if indexes is not None and not re.fullmatch(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*", indexes):
        text = (
            f"error parsing succeededIndexes: cannot convert string to integer for index: {api_errors.quoted(indexes)}"
        )
        yield api_errors.invalid_value(f"{path}.succeededIndexes", indexes, text)
    yield from rules.not_negative(count, f"{path}.succeededCount")
    if count is not None and completions is not None and count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        yield api_errors.invalid_value(f"{path}.succeededCount", count, text)


# ------------------------------------------------------------------ indices
def validate_indexed(spec: JsonObject, path: str) -> Iterator[Cause]:
    """How many indices there may be, and how many of them at once."""
    parallel, most = spec.get("parallelism") or 0, spec.get("maxFailedIndexes")
    completions = spec.get("completions")
    if parallel > _MOST_INDEXES:
        text = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        yield api_errors.invalid_value(f"{path}.parallelism", parallel, text)
    if completions is None:
        return
    if most is not None and most > completions:
        yield api_errors.invalid_value(f"{path}.maxFailedIndexes", most, "must be less than or equal to completions")
    if most is not None and most > _MOST_INDEXES:
        text = f"must be less than or equal to {_MOST_INDEXES}"
        yield api_errors.invalid_value(f"{path}.maxFailedIndexes", most, text)
    if completions > _MOST_INDEXES and spec.get("backoffLimitPerIndex") is not None:
        if most is None:
            text = f"must be specified when completions is above {_MOST_INDEXES}"
            yield api_errors.required(f"{path}.maxFailedIndexes", text)
        words = f"when completions are above {_MOST_INDEXES} and used with backoff limit per index"
        for key, value in (("parallelism", parallel), ("maxFailedIndexes", most or 0)):
            if value > _MOST_AT_ONCE:
                text = f"must be less than or equal to {_MOST_AT_ONCE} {words}"
                yield api_errors.invalid_value(f"{path}.{key}", value, text)
