"""Values of strings, numbers and booleans from the keywords of a schema. Pure.

All functions yield proposals: `field_values` keeps those that the schema's validator admits, or refuses where they are
beyond it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from opsdk.apiserver.structural.node import SchemaNode
from opsdk.apiserver.structural.rule_locations import RULES
from opsdk.apiserver.structural.validation import SchemaValidator
from opsdk.structured_merge.value import JsonValue
from opsdk.verification.workload.patterns import MAX_STRING, matching_strings
from opsdk.verification.workload.schema_fields import ENTRY, SchemaField
from opsdk.verification.workload.values import FieldValue, beyond, boundary, valid

MAX_ENUM: Final = 50
"""Values of an enumeration that are used."""
MAX_ALTERNATIVES: Final = 10
"""Schemas in allOf, anyOf and oneOf that are read."""
_MAX_LITERALS: Final = 5
_MAX_RULE: Final = 2000
_LITERAL: Final = re.compile(r"""['"]([^'"\\]{1,60})['"]""")
_LABEL_LENGTH: Final = 63
_FORMATS: Final[Mapping[str, tuple[str, str]]] = {
    "bsonobjectid": ("507f1f77bcf86cd799439011", "507f1f77bcf86cd799439012"),
    "byte": ("ZXhhbXBsZQ==", "b3RoZXI="),
    "cidr": ("10.0.0.0/24", "10.0.1.0/24"),
    "creditcard": ("4111111111111111", "5555555555554444"),
    "date": ("2024-02-29", "2025-01-01"),
    "date-time": ("2024-02-29T12:00:00Z", "2025-01-01T00:00:00Z"),
    "datetime": ("2024-02-29T12:00:00Z", "2025-01-01T00:00:00Z"),
    "duration": ("30s", "5m"),
    "email": ("user@example.com", "other@example.com"),
    "hexcolor": ("#336699", "#ffffff"),
    "hostname": ("www.example.com", "other.example.com"),
    "ipv4": ("10.0.0.1", "10.0.0.2"),
    "ipv6": ("2001:db8::1", "2001:db8::2"),
    "isbn": ("0306406152", "9780306406157"),
    "isbn10": ("0306406152", "0471958697"),
    "isbn13": ("9780306406157", "9780471958697"),
    "k8s-long-name": ("www.example.com", "other.example.com"),
    "k8s-short-name": ("example", "other"),
    "mac": ("00:00:5e:00:53:01", "00:00:5e:00:53:02"),
    "rgbcolor": ("rgb(1, 2, 3)", "rgb(0, 0, 0)"),
    "ssn": ("123-45-6789", "987-65-4321"),
    "uri": ("https://example.com/", "https://example.com/other"),
    "uuid": ("9f3bd3a0-5c4e-4c39-9c3c-2a4a9f1f6a10", "9f3bd3a0-5c4e-4c39-9c3c-2a4a9f1f6a11"),
    "uuid3": ("9f3bd3a0-5c4e-3c39-9c3c-2a4a9f1f6a10", "9f3bd3a0-5c4e-3c39-9c3c-2a4a9f1f6a11"),
    "uuid4": ("9f3bd3a0-5c4e-4c39-9c3c-2a4a9f1f6a10", "9f3bd3a0-5c4e-4c39-9c3c-2a4a9f1f6a11"),
    "uuid5": ("9f3bd3a0-5c4e-5c39-9c3c-2a4a9f1f6a10", "9f3bd3a0-5c4e-5c39-9c3c-2a4a9f1f6a11"),
}
"""Two values of each format."""
_OUTSIDE: Final = ("!", "", " ", "A", "not this", "0")
"""Strings of which most patterns and formats refuse one."""
_BOUNDS: Final = {"int32": 2**31 - 1, "int64": 2**63 - 1}


def scalar_values(node: SchemaNode) -> Iterator[FieldValue]:
    """Yield proposals for a value that is neither a list nor an object.

    >>> port = SchemaNode({"type": "integer", "minimum": 1, "maximum": 3})
    >>> [(proposal.value, proposal.reason) for proposal in scalar_values(port)][:5]
    [(1, 'a small number'), (2, 'one step more'), (3, 'two steps more'), (1, 'the minimum'), (0, 'below the minimum')]
    """
    if node.enum:
        yield from _enumerated(node)
        return
    kinds = node.types or ("string", "integer", "boolean")
    for kind in kinds:
        if kind == "string":
            yield from _strings(node)
        elif kind in ("integer", "number"):
            yield from _numbers(node, whole=kind == "integer")
        elif kind == "boolean":
            yield valid(value=True, reason="true")
            yield valid(value=False, reason="false")
    yield from _wrong_types(node)


def alternative_values(node: SchemaNode) -> Iterator[FieldValue]:
    """Yield proposals by the keywords of a schema, and by those of its allOf, anyOf and oneOf."""
    for index, one in enumerate((node, *node.all_of, *node.any_of, *node.one_of)):
        if index <= MAX_ALTERNATIVES:
            for proposal in scalar_values(one):
                suffix = f" (alternative {index})" if index else ""
                yield FieldValue(proposal.value, proposal.value_class, f"{proposal.reason}{suffix}")


def rule_values(field: SchemaField) -> Iterator[FieldValue]:
    """Yield strings with the literals in the rules of a string and of its parent, such as ``self.startsWith('/')``."""
    if "string" not in field.node.types:
        return
    rules = [str(rule.get("rule", "")) for rule in field.node.schema.get(RULES) or ()]
    above = () if field.parent is None else field.parent.node.schema.get(RULES) or ()
    rules += [text for rule in above if f"self.{field.name}" in (text := str(rule.get("rule", "")))]
    literals = dict.fromkeys(literal for rule in rules for literal in _LITERAL.findall(rule[:_MAX_RULE]))
    for literal in list(literals)[:_MAX_LITERALS]:
        for text in (literal, f"{literal}{ENTRY}", f"{ENTRY}{literal}"):
            yield valid(text, f"the string {text!r} by a rule")


def _enumerated(node: SchemaNode) -> Iterator[FieldValue]:
    for index, allowed in enumerate(node.enum[:MAX_ENUM]):
        yield valid(allowed, f"value {index + 1} of the enumeration")
    for text in ("not-in-the-enumeration", "x"):
        yield beyond(text, "a value outside of the enumeration")


def _wrong_types(node: SchemaNode) -> Iterator[FieldValue]:
    if "string" not in node.types:
        yield beyond("text", "a string in the place of another type")
    else:
        yield beyond({}, "an object in the place of a string")


# ------------------------------------------------------------------ strings
def _strings(node: SchemaNode) -> Iterator[FieldValue]:
    """Yield strings of the format, of the pattern, or any, and those at the bounds of their length."""
    shortest, longest = _length(node, "minLength"), _length(node, "maxLength")
    proposals = dict.fromkeys(chain.from_iterable(_texts(node, shortest, longest)))
    texts = [text for text in proposals if SchemaValidator().validate(text, node, "value").is_valid]
    ordinary = [text for text in texts if text and _is_ordinary(text)] or texts
    for index, text in enumerate(ordinary[:3]):
        yield valid(text, ("a string", "another string", "a third string")[index])
    yield from _lengths(texts, shortest, longest)
    if node.pattern is None and not node.format:
        yield boundary("Größe 1", "a string that is no DNS name")
        yield boundary("a" * (_LABEL_LENGTH + 1), "a string longer than a label value")
    else:
        for text in _OUTSIDE:
            yield beyond(text, "a string without the format" if node.pattern is None else "a string beside the pattern")


def _texts(node: SchemaNode, shortest: int | None, longest: int | None) -> Iterator[tuple[str, ...]]:
    """Yield strings by format, pattern and length, the most fitting ones first."""
    yield _FORMATS.get(node.format, ())
    pattern = node.limit("pattern")
    if isinstance(pattern, str) and pattern:
        yield ("example", "other", "1", "1Gi", "example.com")
        bounds = [bound for bound in (shortest, longest) if bound is not None]
        yield tuple(matching_strings(pattern, bounds))
        return
    yield ("example", "other", "third")
    yield tuple("a" * bound for bound in (shortest, longest) if bound is not None and bound <= MAX_STRING)
    if longest is not None:
        yield ("example"[:longest], "other"[:longest])
    if shortest is not None and shortest <= MAX_STRING - 2:
        yield ("b" * shortest, "c" * (shortest + 1))


def _lengths(texts: list[str], shortest: int | None, longest: int | None) -> Iterator[FieldValue]:
    """Yield strings of the least and the greatest length, and one character beyond."""
    yield boundary("", "an empty string")
    at_least = next((text for text in texts if len(text) == shortest), None)
    if at_least is not None:
        yield boundary(at_least, "the shortest string")
    at_most = next((text for text in texts if len(text) == longest), None)
    if at_most is not None:
        yield boundary(at_most, "the longest string")
    if shortest:
        yield beyond("a" * (min(shortest, MAX_STRING) - 1), "a string that is too short")
    if longest is not None and longest < MAX_STRING:
        yield beyond("a" * (longest + 1), "a string that is too long")


def _length(node: SchemaNode, keyword: str) -> int | None:
    bound = node.limit(keyword)
    return int(bound) if _is_usable(bound) and bound >= 0 else None


def _is_ordinary(text: str) -> bool:
    return len(text) <= _LABEL_LENGTH and text.isprintable() and text.strip() == text


# ------------------------------------------------------------------ numbers
def _numbers(node: SchemaNode, *, whole: bool) -> Iterator[FieldValue]:
    """Yield numbers within the bounds, at them and one step beyond."""
    step = _step(node, whole=whole)
    low = _bound(node, "minimum", step, whole=whole)
    high = _bound(node, "maximum", -step, whole=whole)
    first = _first(low, high, step)
    for index, reason in enumerate(("a small number", "one step more", "two steps more")):
        yield valid(_number(first + index * step), reason)
    if low is not None:
        yield boundary(_number(low), "the minimum")
        yield beyond(_number(low - step), "below the minimum")
    else:
        yield boundary(0, "zero")
        yield boundary(_number(-step), "a negative number")
    if high is not None:
        yield boundary(_number(high), "the maximum")
        yield (
            valid(_number(high), "the only number") if low == high else valid(_number(high - step), "near the maximum")
        )
        yield beyond(_number(high + step), "above the maximum")
    elif node.format in _BOUNDS:
        yield boundary(_BOUNDS[node.format] // int(step or 1) * int(step or 1), f"the largest {node.format}")
    if whole:
        yield beyond(first + 0.5, "a fraction in the place of an integer")
    else:
        yield valid(_number(first + step / 2), "a fraction")
    if node.limit("multipleOf"):
        yield beyond(_number(first + step / 2 if not whole else first + 1), "not a multiple")


def _step(node: SchemaNode, *, whole: bool) -> float:
    step = node.limit("multipleOf")
    if not _is_usable(step) or step <= 0:
        return 1
    return max(int(step), 1) if whole else step


def _bound(node: SchemaNode, keyword: str, inwards: float, *, whole: bool) -> float | None:
    """Return the outermost number that a keyword allows; `inwards` is the step from an exclusive bound."""
    bound = node.limit(keyword)
    if not _is_usable(bound):
        return None
    if whole:
        bound = math.ceil(bound) if inwards > 0 else math.floor(bound)
    step = abs(inwards)
    if step != 1:
        bound = (math.ceil(bound / step) if inwards > 0 else math.floor(bound / step)) * step
    is_excluded = bool(node.limit(f"exclusive{keyword.capitalize()}")) and bound == node.limit(keyword)
    outermost: float = bound + inwards if is_excluded else bound
    return outermost


def _is_usable(bound: JsonValue) -> bool:
    """Report whether a bound is a number of a size that integers and floats share."""
    return isinstance(bound, int | float) and not isinstance(bound, bool) and -(2**64) <= bound <= 2**64


def _first(low: float | None, high: float | None, step: float) -> float:
    """Return a small number within the bounds: one step if it is allowed."""
    first = step if low is None or low <= step else low
    return first if high is None or first <= high else high


def _number(value: float) -> JsonValue:
    """Return an integer where the value is one: JSON of other clients has no 1.0."""
    return int(value) if float(value).is_integer() and abs(value) < 2**63 else value
