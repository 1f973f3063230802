"""Validates a JSON tree by its schema, with kube-openapi's checks, order and messages.

Upstream: k8s.io/kube-openapi/pkg/validation/validate/schema.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from opsdk.apiserver.field_errors import (
    NO_PATH,
    FieldError,
    FieldErrorType,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from opsdk.apiserver.strfmt import FORMATS
from opsdk.apiserver.structural.list_types import element_key
from opsdk.apiserver.structural.node import SchemaNode
from opsdk.apiserver.structural.numbers import NumberRules, is_integral
from opsdk.structured_merge.equality import deep_equal, strict_equal
from opsdk.structured_merge.go_format import go_json, go_quote
from opsdk.structured_merge.typed import ABSENT
from opsdk.structured_merge.value import JsonObject, JsonValue


class RuleViolation(msgspec.Struct):
    """The result of evaluating ``x-kubernetes-validations`` on an object.

    Attributes:
        errors: violations by new or changed values.
        warnings: violations by unchanged values.
    """

    errors: list[FieldError] = msgspec.field(default_factory=list)
    warnings: list[FieldError] = msgspec.field(default_factory=list)


class ValidationResult:
    """The errors of a validation, with its number of checks: the best of several alternatives has the most."""

    __slots__ = ("_reported", "checks")

    def __init__(self) -> None:
        """Create a result without errors and checks."""
        self._reported: dict[tuple[FieldErrorType, str, str], FieldError] = {}
        self.checks = 0

    @property
    def errors(self) -> list[FieldError]:
        """The errors, without duplicates."""
        return list(self._reported.values())

    @property
    def is_valid(self) -> bool:
        """Report whether the value has no errors."""
        return not self._reported

    def add(self, error: FieldError) -> None:
        """Add an error unless the result contains it, for example from another alternative."""
        self._reported.setdefault((error.type, error.field, error.detail), error)

    def merge(self, other: ValidationResult) -> None:
        """Add the errors of another check."""
        for error in other._reported.values():
            self.add(error)
        self.checks += other.checks


class SchemaValidator:
    """Validates values below a base path; an empty base is the object itself."""

    def __init__(self, base: str = "") -> None:
        """`base` is the prefix of field names, e.g. the path of a default inside a CRD."""
        self._base = base

    def validate(self, value: JsonValue, node: SchemaNode, name: str, old: JsonValue = ABSENT) -> ValidationResult:
        """Validate `value` at the path `name`.

        `old` is the previous value. An unchanged value is not validated, because the schema may have become stricter
        since it was written.
        """
        result = ValidationResult()
        if old is not ABSENT and old is not None and strict_equal(old, value) and _findable(value, node):
            return result
        self._type(value, node, name, result)
        if value is None:
            self._enum(value, node, name, result)
            return result
        # Count the kinds of checks, in order: type, logic, keywords of the type, enumeration, the whole value.
        result.checks += 4 + bool(node.types or node.format)
        if node.logical:
            self._logic(value, node, name, old, result)
        match value:
            case str():
                self._string(value, node, name, result)
                check = FORMATS.get(node.format)
                result.checks += 2 * (check is not None)
                if check is not None and not check(value):
                    text = f"{name} in body must be of type {node.format}: {go_quote(value)}"
                    result.add(type_invalid(self._field_path(name), value, text))
            case bool():
                result.checks -= 1
            case int() | float():
                self._number(value, node, name, result)
            case list():
                self._list(value, node, name, old, result)
        self._enum(value, node, name, result)
        if isinstance(value, dict):
            self._object(value, node, name, old, result)
        return result

    # -------------------------------------------------------------- paths
    def _field_path(self, name: str) -> str:
        name = name.removeprefix(".")
        return f"{self._base}.{name}" if self._base and name else self._base or name or NO_PATH

    def _add_without_field(self, result: ValidationResult, text: str) -> None:
        """Add an error that upstream reports without a field."""
        result.add(invalid(self._base or NO_PATH, "", text))

    # -------------------------------------------------------------- the keywords, in the server's order
    def _type(self, value: JsonValue, node: SchemaNode, name: str, result: ValidationResult) -> None:
        wrong = _type_fault(value, node)
        if wrong is None:
            result.checks += bool(node.types or node.format)
        else:
            expected, actual = wrong
            detail = f"{name} in body must be of type {expected}: {go_quote(actual)}"
            result.add(type_invalid(self._field_path(name), actual, detail))

    def _logic(self, value: JsonValue, node: SchemaNode, name: str, old: JsonValue, result: ValidationResult) -> None:
        """Check ``anyOf``, ``oneOf``, ``allOf`` and ``not``."""
        result.checks += 1
        quoted = go_quote(name)
        if node.any_of:
            tried = self._try(value, node.any_of, name, old)
            good = next((one for one in tried if one.is_valid), None)
            if good is None:
                self._add_without_field(result, f"{quoted} must validate at least one schema (anyOf)")
            result.merge(good or _longest_failure(tried))
        if node.one_of:
            tried = self._try(value, node.one_of, name, old)
            valid = [one for one in tried if one.is_valid]
            if len(valid) != 1:
                message = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
                self._add_without_field(result, f"{quoted} must validate one and only one schema (oneOf). {message}")
            if len(valid) < 2:
                result.merge(valid[0] if valid else _longest_failure(tried))
        if node.all_of:
            tried = self._try(value, node.all_of, name, old)
            failed = sum(not one.is_valid for one in tried)
            for one in tried:
                result.merge(one)
            if failed:
                none = ". None validated" if failed == len(tried) else ""
                self._add_without_field(result, f"{quoted} must validate all the schemas (allOf){none}")
        if node.not_ is not None and self.validate(value, node.not_, name).is_valid:
            self._add_without_field(result, f"{quoted} must not validate the schema (not)")

    def _try(self, value: JsonValue, nodes: Iterable[SchemaNode], name: str, old: JsonValue) -> list[ValidationResult]:
        return [self.validate(value, node, name, old) for node in nodes]

    def _string(self, value: str, node: SchemaNode, name: str, result: ValidationResult) -> None:
        longest, shortest = node.limit("maxLength"), node.limit("minLength")
        if longest is not None and len(value) > longest:
            result.add(too_long(self._field_path(name), longest))
        elif shortest is not None and len(value) < shortest:
            text = f"{name} in body should be at least {shortest} chars long"
            result.add(invalid(self._field_path(name), value, text))
        elif node.pattern is not None and not node.pattern.search(value):
            text = f"{name} in body should match '{node.limit('pattern')}'"
            result.add(invalid(self._field_path(name), value, text))

    def _number(self, value: float, node: SchemaNode, name: str, result: ValidationResult) -> None:
        kind = node.types[0] if len(node.types) == 1 else ""
        rules = NumberRules(kind=kind, form=node.format, limit=node.limit)
        for error in rules.faults(value, name, self._field_path(name)):
            if isinstance(error, str):
                self._add_without_field(result, error)
            else:
                result.add(error)
        result.checks += 1 + rules.count

    def _list(
        self, value: list[JsonValue], node: SchemaNode, name: str, old: JsonValue, result: ValidationResult
    ) -> None:
        if node.items is not None:
            before = _old_elements(old, node)
            for index, item in enumerate(value):
                result.merge(self.validate(item, node.items, f"{name}[{index}]", before(item)))
        least, most = node.limit("minItems"), node.limit("maxItems")
        if least is not None and len(value) < least:
            text = f"{name} in body should have at least {least} items"
            result.add(invalid(self._field_path(name), len(value), text))
        if most is not None and len(value) > most:
            result.add(too_many(self._field_path(name), len(value), most))
        result.checks += 1

    def _enum(self, value: JsonValue, node: SchemaNode, name: str, result: ValidationResult) -> None:
        if node.enum and not any(deep_equal(value, allowed) for allowed in node.enum):
            texts = [allowed if isinstance(allowed, str) else go_json(allowed) for allowed in node.enum]
            result.add(not_supported(self._field_path(name), value, texts))

    def _object(self, value: JsonObject, node: SchemaNode, name: str, old: JsonValue, result: ValidationResult) -> None:
        """Check the number of an object's properties, each of them, and the required ones."""
        least, most = node.limit("minProperties"), node.limit("maxProperties")
        if least is not None and len(value) < least:
            text = f"{name} in body should have at least {least} properties"
            result.add(invalid(self._field_path(name), len(value), text))
        if most is not None and len(value) > most:
            result.add(too_many(self._field_path(name), len(value), most))
        before = old if isinstance(old, dict) else {}
        for key, item in value.items():
            below = node.entry(key)
            if below is not None:
                field_path = f"{name}.{key}" if name else key
                result.merge(self.validate(item, below, field_path, before.get(key, ABSENT)))
        for key in node.required:
            if key not in value:
                result.add(required(self._field_path(f"{name}.{key}")))


def _longest_failure(results: list[ValidationResult]) -> ValidationResult:
    """Return the failure with the most checks, the first one of several."""
    return max(results, key=lambda result: result.checks)


# ------------------------------------------------------------------ types and numbers
_JSON_TYPES: Final = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}
_NUMERIC: Final = frozenset({"integer", "number"})


def _type_fault(value: JsonValue, node: SchemaNode) -> tuple[str, str] | None:
    """Return the expected and the actual type if they differ."""
    if not (node.types or node.format):
        return None
    if value is None:
        return None if node.nullable or not node.types else (",".join(node.types), "null")
    # To upstream, an integer of more than 64 bits is a float.
    wide = isinstance(value, int) and not -(2**63) <= value < 2**63
    actual = "number" if wide else _JSON_TYPES[type(value)]
    whole = isinstance(value, float) and is_integral(value)
    fits = actual in node.types or (actual == "integer" and "number" in node.types)
    if fits or (whole and "integer" in node.types):
        return None
    if node.format and not isinstance(value, str | list):
        return node.format, _GO_FORMATS.get(actual, "")
    if node.format and not _NUMERIC.intersection(node.types):
        return None  # strings and lists may have other encodings
    return ",".join(node.types), actual


_GO_FORMATS: Final = {"number": "float64", "integer": "int64"}


# ------------------------------------------------------------------ comparison with old values
def _old_elements(old: JsonValue, node: SchemaNode) -> Callable[[JsonValue], JsonValue]:
    """Return a lookup of the old element for a new one by its keys. Without keys it finds none."""
    if node.list_type != "map" or not isinstance(old, list):
        return lambda _: ABSENT
    elements = {element_key(item, node.list_keys): item for item in old if _has_keys(item, node)}
    return lambda item: elements.get(element_key(item, node.list_keys), ABSENT) if _has_keys(item, node) else ABSENT


def _has_keys(item: JsonValue, node: SchemaNode) -> bool:
    return isinstance(item, dict) and all(key in item for key in node.list_keys)


def _findable(value: JsonValue, node: SchemaNode | None) -> bool:
    """Report whether all elements of map lists in `value` have their keys; other elements cannot be matched."""
    if node is None or not node.unique:
        return True
    if isinstance(value, dict):
        return all(_findable(item, node.entry(name)) for name, item in value.items())
    if not isinstance(value, list):
        return True
    keyed = node.list_type == "map"
    return all((not keyed or _has_keys(item, node)) and _findable(item, node.items) for item in value)


BLOCKING: Final = frozenset(
    {
        FieldErrorType.NOT_SUPPORTED,
        FieldErrorType.REQUIRED,
        FieldErrorType.TOO_LONG,
        FieldErrorType.TOO_MANY,
        FieldErrorType.TYPE_INVALID,
    }
)
"""After errors of these types, rules are not evaluated, because they rely on the schema."""
