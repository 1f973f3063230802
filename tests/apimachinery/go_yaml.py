"""A second reader of YAML for tests: PyYAML's parser with the scalars of Go's resolver, written from its rules.

It shares no code with `opsdk.apimachinery.serializer.yaml_documents`.

Upstream: sigs.k8s.io/yaml/goyaml.v2/resolve.go, strconv.ParseInt, strconv.ParseFloat
"""

from __future__ import annotations

import math
from typing import Any

import yaml

_WORDS: dict[str, Any] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
}
_DIGITS = "0123456789abcdef"
_BASES = {"0b": 2, "0o": 8, "0x": 16}


def _parse_int(text: str, base: int) -> int | None:
    """`strconv.ParseInt` or `ParseUint`, by the sign: None for an error."""
    sign, digits = 1, text
    if digits[:1] in ("+", "-"):
        sign, digits = (-1 if digits[0] == "-" else 1), digits[1:]
    if base == 0:
        base = 10
        if digits[:2].lower() in _BASES and len(digits) > 2:
            base, digits = _BASES[digits[:2].lower()], digits[2:]
        elif digits[:1] == "0" and len(digits) > 1:
            base, digits = 8, digits[1:]
    if not digits or any(char not in _DIGITS[:base] for char in digits.lower()):
        return None
    number = 0
    for char in digits.lower():
        number = number * base + _DIGITS.index(char)
    number *= sign
    return number if -(2**63) <= number < 2**63 or (text[0] not in "+-" and number < 2**64) else None


def _take_digits(text: str) -> int:
    return next((index for index, char in enumerate(text) if char not in _DIGITS[:10]), len(text))


def _parse_float(text: str) -> float | None:
    """`strconv.ParseFloat` of a decimal number: None for an error, also if it is out of range."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    whole = _take_digits(rest)
    rest = rest[whole:]
    part = 0
    if rest[:1] == ".":
        part = _take_digits(rest[1:])
        rest = rest[1 + part :]
    if not whole + part:
        return None
    if rest[:1] in ("e", "E"):
        rest = rest[1:]
        rest = rest[1:] if rest[:1] in ("+", "-") else rest
        if not rest:
            return None
        rest = rest[_take_digits(rest) :]
    if rest:
        return None
    number = float(text)
    return None if math.isinf(number) else number


def resolve(text: str) -> Any:
    """Return the value of a plain scalar; a time stays a string."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == ".":
        number = _parse_float(text)
        return text if number is None else number
    if text[0] not in "+-0123456789":
        return text
    plain = text.replace("_", "")
    for number in (
        _parse_int(plain, 0),
        _parse_float(plain),
        _parse_int(plain[2:], 2) if plain.startswith("0b") else None,
        _parse_int("-" + plain[3:], 2) if plain.startswith("-0b") else None,
    ):
        if number is not None:
            return number
    return text


def _value(node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return resolve(node.value) if node.style is None else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_value(part) for part in node.value]
    pairs = [(key, _value(key), _value(part)) for key, part in node.value]
    assert not any(key.style is None and key.value == "<<" for key, _, _ in pairs), "a merge"
    return {key if isinstance(key, str) else repr(key): part for _, key, part in pairs}


def read_all(text: str) -> list[Any]:
    """Return the documents of a stream, as Go's untyped decoder reads them."""
    return [_value(node) for node in yaml.compose_all(text, yaml.SafeLoader)]
