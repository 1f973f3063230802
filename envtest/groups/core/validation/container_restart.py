"""Validation of container restart policies and restart rules.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_POLICIES: Final = ("Always", "Never", "OnFailure")
_ACTIONS: Final = ("Restart", "RestartAllContainers")
_OPERATORS: Final = ("In", "NotIn")
_MOST_RULES: Final = 20
_MOST_CODES: Final = 255


def validate_restarts(container: JsonObject, path: str) -> Iterator[Cause]:
    """Validate the restart policy and the restart rules of a container."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    if policy is None:
        if rules:
            text = "must specify restartPolicy when restart rules are used"
            yield api_errors.required(f"{path}.restartPolicy", text)
    elif policy not in _POLICIES:
        yield api_errors.unsupported(f"{path}.restartPolicy", policy, _POLICIES)
    rules_path = f"{path}.restartPolicyRules"
    if len(rules) > _MOST_RULES:
        yield api_errors.too_many(rules_path, len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        yield from _rule(rule, f"{rules_path}[{index}]")


def _rule(rule: JsonObject, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a restart rule of a container."""
    action, codes = rule.get("action", ""), rule.get("exitCodes")
    if not action:
        yield api_errors.required(f"{path}.action")
    elif action not in _ACTIONS:
        yield api_errors.unsupported(f"{path}.action", action, _ACTIONS)
    if codes is None:
        yield api_errors.required(f"{path}.exitCodes", "must be specified")
        return
    operator = codes.get("operator", "")
    if operator not in _OPERATORS:
        yield api_errors.unsupported(f"{path}.exitCodes.operator", operator, _OPERATORS)
    count = len(codes.get("values") or ())
    if count > _MOST_CODES:
        yield api_errors.too_many(f"{path}.exitCodes.values", count, _MOST_CODES)
