"""Validates the fields of ``x-kubernetes-validations`` entries without compiling them.

Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from opsdk.apiserver.field_errors import FieldError, invalid, not_supported, required
from opsdk.apiserver.structural.rule import REASONS, parse_field_path
from opsdk.apiserver.structural.rule_locations import RULES
from opsdk.errors import UsageError
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonValue

Schema = Mapping[str, JsonValue]
Errors = Iterator[FieldError]


def check_rule_texts(schema: Schema, path: FieldPath) -> Errors:
    """Yield the errors in one schema's rules that need no compilation."""
    for index, rule in enumerate(schema.get(RULES) or ()):
        rule_path = path.child(RULES).index(index)
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            yield required(rule_path.child("rule"), "rule is not specified")
        elif message and not message.strip():
            yield invalid(rule_path.child("message"), message, "must be non-empty if specified")
        elif _breaks(message.strip()):
            yield invalid(rule_path.child("message"), message, "must not contain line breaks")
        elif _breaks(text) and not message:
            yield required(rule_path.child("message"), "message must be specified if rule contains line breaks")
        expression = rule.get("messageExpression") or ""
        if expression and not expression.strip():
            yield required(rule_path.child("messageExpression"), "messageExpression must be non-empty if specified")
        reason = rule.get("reason")
        if reason is not None and reason not in REASONS:
            yield not_supported(rule_path.child("reason"), reason, sorted(REASONS))
        yield from _check_field_path(rule.get("fieldPath") or "", schema, rule_path.child("fieldPath"))


def _breaks(text: str) -> bool:
    return bool(re.search(r"[\n\r]", text))


def _check_field_path(text: str, schema: Schema, at: FieldPath) -> Errors:
    if not text:
        return
    if not text.strip():
        yield invalid(at, text, "must be non-empty if specified")
    if _breaks(text):
        yield invalid(at, text, "must not contain line breaks")
    try:
        parse_field_path(text, schema)
    except UsageError:
        yield invalid(at, text, "must be a valid path")
