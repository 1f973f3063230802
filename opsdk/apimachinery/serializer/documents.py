"""Parse JSON request bodies, with Go's error messages and strict-decoding warnings. Pure.

The standard parser accepts or rejects a document. A slower pass runs only for error messages, for duplicate keys,
and for long numbers and surrogate escapes, which Go reads differently.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/json/json.go (v1.36), sigs.k8s.io/json, sigs.k8s.io/yaml.
Deviates: documents that are nested deeper than `MAX_DEPTH` are rejected; Go's limit is 10,000. A document has at most
`Limits.document_values` keys and values.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from opsdk.apimachinery.serializer.json_errors import first_fault
from opsdk.base.limits import LIMITS
from opsdk.structured_merge.value import JsonObject, JsonValue

MAX_DEPTH: Final = 200
"""Deepest nesting of objects and lists; no Kubernetes API nests this deep."""

_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 18
"""As many digits as a number may have that needs no check."""
_NO_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"[]{}")))
HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_INT64 = 2**63
_DECODER: Final = msgspec.json.Decoder()
_ENCODER: Final = msgspec.json.Encoder()


class SyntaxProblemError(Exception):
    """The bytes are not JSON or YAML; the message is that of Go's parser.

    Attributes:
        line: in the text, from 1; 0 if it is not known. Lines in the messages of goyaml differ by one at times.
    """

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message)
        self.line = line

    @property
    def reason(self) -> str:
        """The message without the line, for messages that have `line`."""
        return re.sub(r"\Ayaml: (?:line \d+: )?", "", str(self))


class NumberProblemError(SyntaxProblemError):
    """The syntax is valid, but a number does not fit Go's int64 or float64."""


class ParsedDocument(msgspec.Struct, frozen=True):
    """A parsed document and its duplicate keys.

    Attributes:
        complaints: the strict-decoding errors.
        yaml: the document was YAML, for which strict decoding joins all errors into one string.
        raw: the bytes, for error messages that show them.
    """

    tree: JsonValue
    complaints: tuple[str, ...] = ()
    yaml: bool = False
    raw: bytes = b""

    @property
    def strict(self) -> tuple[str, ...]:
        """The strict-decoding errors in the form of error messages."""
        if not self.yaml or not self.complaints:
            return self.complaints
        return ("\n  ".join(("yaml: unmarshal errors:", *self.complaints)),)


def json_kind(value: JsonValue) -> str:
    """Return Go's name of a JSON value's type."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        return "number"
    return "array" if isinstance(value, list) else "object"


# ------------------------------------------------------------------ JSON
_DECODED_AT_ONCE: Final = 1024 * 1024
"""Bytes of JSON whose decoder may hold the interpreter: 15 ms."""
_PIECE: Final = 64 * 1024
"""Bytes or characters of a document that one call of C code reads: other threads run after a millisecond."""


class _Pairs(list[tuple[str, JsonValue]]):
    """An object with all its members, including duplicate keys."""


def parse_json(raw: bytes) -> ParsedDocument:
    """Parse JSON and report duplicate keys."""
    _check_size(raw)
    tree = _parse_canonical(raw)
    if tree is not None:
        return ParsedDocument(tree)
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH:
        depth = 0
        for mark in re.finditer(rb'"(?:[^"\\]|\\.)*"?|[{\[]|[}\]]', raw, re.DOTALL):
            first = mark.group()[:1]
            if first in b"{[":
                depth += 1
                if depth > MAX_DEPTH:
                    raise SyntaxProblemError("exceeded max depth")
            elif first in b"}]":
                depth -= 1
    repeated = False

    def pairs(items: list[tuple[str, JsonValue]]) -> JsonObject:
        nonlocal repeated
        tree: JsonObject = dict(items)
        repeated = repeated or len(tree) != len(items)
        return tree

    careful: Any = {"parse_int": _integer, "parse_float": _float} if _has_long_number(raw) else {}
    # Invalid UTF-8 becomes replacement characters, as in Go.
    text = raw.decode("utf-8", "replace")
    try:
        tree = json.loads(text, object_pairs_hook=pairs, parse_constant=_no_constant, **careful)
    except ValueError:
        raise SyntaxProblemError(first_fault(raw) or "unexpected end of JSON input") from None
    complaints = tuple(_repeated(json.loads(text, object_pairs_hook=_Pairs))) if repeated else ()
    if b"\\u" in raw:
        tree = _without_surrogates(tree)
    return ParsedDocument(tree, complaints)


def _check_size(raw: bytes) -> None:
    """Refuse a document with too many keys and values: each is a separator, or the first one of its container."""
    if len(raw) <= LIMITS.document_values or _separators(raw) < LIMITS.document_values:
        return
    values, first = 0, 0  # the first part of a piece that is outside of strings
    for piece in _pieces(raw):
        # Without escapes, each second part between quotes is outside a string.
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        values += _separators(b"".join(parts[first::2]))
        if values >= LIMITS.document_values:
            raise SyntaxProblemError(f"document has more than {LIMITS.document_values} keys and values")
        first ^= (len(parts) - 1) & 1


def _pieces(raw: bytes) -> Iterator[bytes]:
    """Yield the bytes in pieces that do not cut an escape: other threads run between two of them."""
    start = 0
    while start < len(raw):
        end = start + _PIECE
        while raw[end - 1 : end] == b"\\":
            end += 1
        yield raw[start:end]
        start = end


def _has_long_number(raw: bytes) -> bool:
    """Whether there may be a number that Go reads differently. A regular expression takes ten times as long."""
    zeros = raw.translate(_DIGITS)
    return _LONG in zeros or b"e000" in zeros or b"E000" in zeros or b"e+000" in zeros or b"E+000" in zeros


def _separators(raw: bytes) -> int:
    return sum(map(raw.count, (b",", b":", b"[", b"{")))


def _parse_canonical(raw: bytes) -> JsonObject | None:
    """Return the object of compact JSON, as Go's and opsdk's clients send it; None for any other text.

    Text that encodes to the same bytes has no duplicate key, no escape, and no number that Go reads differently, apart
    from long integers. Decoding and encoding is several times as fast as the parser that reports all that. Exponents
    need no check, and half of all objects have one in a uid. Larger texts are not tried: no other thread runs while
    they are decoded.
    """
    if len(raw) > _DECODED_AT_ONCE or raw[:1] != b"{" or _LONG in raw.translate(_DIGITS) or _may_be_too_deep(raw):
        return None
    try:
        tree: JsonObject = _DECODER.decode(raw)
        return tree if _ENCODER.encode(tree) == raw.rstrip(b"\n") else None
    except (msgspec.DecodeError, msgspec.EncodeError, UnicodeError, RecursionError):
        return None


def _may_be_too_deep(raw: bytes) -> bool:
    """Whether a document may be nested deeper than `MAX_DEPTH`; brackets in strings count too."""
    if raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return False
    brackets = raw.translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):  # each pass removes at least the innermost level
        rest = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if not rest:
            return False
        if len(rest) == len(brackets):
            break
        brackets = rest
    return True


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} has no form in JSON")


def _integer(text: str) -> int | float:
    number = int(text) if len(text) < 21 else float(text)
    return number if isinstance(number, int) and -_INT64 <= number < _INT64 else _float(text)


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NumberProblemError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return number


def _repeated(value: JsonValue, path: str = "") -> Iterator[str]:
    """Yield the paths of duplicate keys in document order."""
    if isinstance(value, _Pairs):
        keys: set[str] = set()
        reported: set[str] = set()
        for key, part in value:
            field_path = f"{path}.{key}" if path else key
            if key in keys and key not in reported:
                reported.add(key)
                yield f'duplicate field "{field_path}"'
            keys.add(key)
            yield from _repeated(part, field_path)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _repeated(part, f"{path}[{index}]")


def _without_surrogates(value: JsonValue) -> JsonValue:
    """Replace lone surrogates by replacement characters."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return "".join(
            _SURROGATE.sub("\ufffd", value[start : start + _PIECE]) for start in range(0, len(value), _PIECE)
        )
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(part) for key, part in value.items()}
    return [_without_surrogates(part) for part in value] if isinstance(value, list) else value
