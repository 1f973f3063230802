"""Parse YAML request bodies, with Go's error messages and strict-decoding warnings. Pure.

The events of the parser become values at once: a document has no tree of nodes, no value is visited twice, and values,
aliases included, are counted as they come. libyaml, which PyYAML's wheels contain, is ten times as fast as PyYAML's own
parser. Few servers get YAML, so this module is imported on first use.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/json/json.go (v1.36), sigs.k8s.io/yaml.
Deviates: a document has at most `Limits.document_values` values.
"""

from __future__ import annotations

import base64
import json
import math
import re
from functools import lru_cache
from typing import Any, Final

import yaml
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from opsdk.apimachinery.serializer.documents import (
    HALF_CHARACTER,
    MAX_DEPTH,
    ParsedDocument,
    SyntaxProblemError,
    parse_json,
)
from opsdk.apimachinery.serializer.yaml_errors import utf8_words, yaml_words
from opsdk.base.limits import LIMITS
from opsdk.structured_merge.go_format import go_float, go_scalar, go_syntax, whole_numbers
from opsdk.structured_merge.value import JsonObject, JsonValue


def parse_yaml(raw: bytes) -> ParsedDocument:
    """Parse YAML as JSON: keys become strings, times stay strings. Only the first document is read."""
    text = _yaml_text(raw)
    if raw[:1] == b"{" and b"\t" not in raw and not HALF_CHARACTER.search(raw):
        # Most clients apply JSON, whose parser is fifty times faster. The YAML parser reads invalid JSON again for its
        # own messages, and JSON with tabs, lone surrogates or duplicate keys.
        try:
            parsed = parse_json(raw)
        except SyntaxProblemError:
            pass
        else:
            if not parsed.complaints:
                return parsed
    try:
        documents = _Documents(text)
        tree = None
        while tree is None and documents.more():
            tree = documents.next_document()
        return ParsedDocument(tree, tuple(documents.repeated), yaml=True)
    except yaml.YAMLError as error:
        raise SyntaxProblemError(f"yaml: {yaml_words(error)}") from None


def _yaml_text(raw: bytes) -> str:
    """Decode a document; a byte order mark determines the encoding."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SyntaxProblemError(f"yaml: {utf8_words(error)}") from None


class _PythonParser(Reader, Scanner, Parser):
    """PyYAML's own parser, where libyaml is missing."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)


_EventParser: Final[Any] = getattr(yaml, "CSafeLoader", _PythonParser)


class _Merge:
    """The key ``<<``."""


_MERGE: Final = _Merge()


class _Documents:
    """Builds the documents of a stream.

    As in goyaml, an error of the syntax counts before one of a value, wherever it stands.

    Attributes:
        repeated: the strict-decoding errors of duplicate keys.
    """

    def __init__(self, text: str) -> None:
        self._events = _EventParser(text)
        self._events.get_event()  # the start of the stream
        self._left = LIMITS.document_values
        self._fault: Exception | None = None
        self._anchors: dict[str, JsonValue] = {}
        self._weights: dict[str, int] = {}
        self._open: set[str] = set()
        self.repeated: list[str] = []

    def more(self) -> bool:
        """Whether there is another document."""
        return bool(self._events.check_event(yaml.DocumentStartEvent))

    def next_document(self) -> JsonValue:
        """Return the next document."""
        self._events.get_event()
        self._anchors.clear()
        value = self._value(self._events.get_event(), 1)
        self._events.get_event()
        if self._fault is not None:
            raise self._fault
        return None if value is _MERGE else value

    def _value(self, event: Any, depth: int) -> JsonValue:
        """Return the value that begins with an event; `_MERGE` for a plain ``<<``."""
        kind = type(event)
        budget = self._left
        self._count(1, depth)
        if kind is yaml.ScalarEvent and event.anchor is None:
            return self._scalar(event)
        if kind is yaml.AliasEvent:
            return self._alias(event.anchor, depth)
        anchor = event.anchor
        if kind is yaml.ScalarEvent:
            value = self._scalar(event)
        else:
            if anchor is not None:
                self._open.add(anchor)
            value = self._list(depth) if kind is yaml.SequenceStartEvent else self._mapping(depth)
        if anchor is not None:
            self._open.discard(anchor)
            self._anchors[anchor] = value
            self._weights[anchor] = budget - self._left
        return value

    def _count(self, values: int, depth: int) -> None:
        self._left -= values
        if self._left < 0:
            raise yaml.YAMLError("document contains excessive aliasing")
        if depth > MAX_DEPTH:
            raise yaml.YAMLError("exceeded max depth")

    def _report(self, error: Exception) -> None:
        """Remember the first error of a value, which is raised behind the document."""
        if self._fault is None:
            self._fault = error

    # -------------------------------------------------------------- collections
    def _list(self, depth: int) -> list[JsonValue]:
        values: list[JsonValue] = []
        next_event = self._events.get_event
        while type(event := next_event()) is not yaml.SequenceEndEvent:
            value = self._value(event, depth + 1)
            values.append("<<" if value is _MERGE else value)
        return values

    def _mapping(self, depth: int) -> JsonObject:
        """Convert keys to strings, as in JSON; 1 and true are then strings too."""
        mapping: JsonObject = {}
        merged: JsonObject = {}
        next_event = self._events.get_event
        while type(event := next_event()) is not yaml.MappingEndEvent:
            line = event.start_mark.line
            key = self._value(event, depth + 1)
            value = self._value(next_event(), depth + 1)
            if key is _MERGE:
                self._merge(merged, value)
                continue
            value = "<<" if value is _MERGE else value
            if not isinstance(key, str):
                key = self._key(key, value)
            if key in mapping:
                self.repeated.append(f"line {line + 1}: key {json.dumps(key)} already set in map")
            mapping[key] = value
        return {**merged, **mapping} if merged else mapping

    def _key(self, key: JsonValue, value: JsonValue) -> str:
        if isinstance(key, (dict, list)):
            self._report(yaml.YAMLError(f"invalid map key: {go_syntax(key)}"))
            return ""
        if key is None:
            text = f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {go_syntax(value)}"
            self._report(SyntaxProblemError(text))
            return ""
        return go_scalar(key)

    def _merge(self, merged: JsonObject, value: JsonValue) -> None:
        """Add the members of a mapping, or of several: the first value of a key counts."""
        for part in value if isinstance(value, list) else [value]:
            if not isinstance(part, dict):
                self._report(yaml.YAMLError("map merge requires map or sequence of maps as the value"))
                return
            for key, member in part.items():
                merged.setdefault(key, member)

    # -------------------------------------------------------------- aliases
    def _alias(self, anchor: str, depth: int) -> JsonValue:
        if anchor in self._open:
            self._report(yaml.YAMLError(f"anchor '{anchor}' value contains itself"))
            return None
        if anchor not in self._anchors:
            raise yaml.YAMLError(f"unknown anchor '{anchor}' referenced")
        # As in goyaml, an alias counts as the values that were read for its anchor, merged ones included.
        self._count(self._weights[anchor] - 1, depth)
        value = self._anchors[anchor]
        return self._copied(value, depth) if isinstance(value, dict | list) else value

    def _copied(self, value: JsonValue, depth: int) -> JsonValue:
        """Return a copy that shares no values."""
        self._count(0, depth)
        if isinstance(value, dict):
            return {key: self._copied(part, depth + 1) for key, part in value.items()}
        return [self._copied(part, depth + 1) for part in value] if isinstance(value, list) else value

    # -------------------------------------------------------------- scalars
    def _scalar(self, event: Any) -> JsonValue:
        """Return the value of a scalar; a problem is reported, and the value is None."""
        text, tag = event.value, event.tag
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            self._report(yaml.YAMLError("found invalid Unicode character escape code"))
            return ""
        if tag is None or tag == "!":
            if not event.implicit[0]:
                return text
            if len(text) <= _SHORT:
                try:
                    return _short_plain(text)
                except SyntaxProblemError as error:
                    self._report(error)
                    return None
            tag = _plain_tag(text)
        elif not tag.startswith(_TAG) or tag in _IGNORED_TAGS:
            tag = _plain_tag(text)
        try:
            return _tagged(text, tag)
        except (yaml.YAMLError, SyntaxProblemError) as error:
            self._report(error)
            return None


def _tagged(text: str, tag: str) -> JsonValue:
    """Return the value of a scalar with a tag. Raises an error if the text does not fit the tag."""
    name = tag.removeprefix(_TAG)
    if name == "str" or name not in _NATIVE_TAGS:
        return text
    if name == "binary":
        try:
            return base64.b64decode(text, validate=True).decode("utf-8", "replace")
        except ValueError:
            raise yaml.YAMLError("!!binary value contains invalid base64 data") from None
    plain = _plain_tag(text).removeprefix(_TAG)
    if name != plain and (name, plain) != ("float", "int"):
        raise yaml.YAMLError(f"cannot decode !!{plain} `{text}` as a !!{name}")
    if name == "merge":
        return _MERGE
    if name == "bool":
        return text.lower() in _TRUE
    return None if name == "null" else _number(text, plain)


@lru_cache(maxsize=1024)
def _short_plain(text: str) -> JsonValue:
    """Return the value of a short plain scalar. Documents repeat keys and values."""
    return _tagged(text, _plain_tag(text))


def _plain_tag(text: str) -> str:
    """Return the tag of a plain scalar without a tag of its own."""
    for tag, pattern in _RESOLVERS.get(text[:1], ()):
        if pattern.match(text):
            return tag
    return _STRING


def _number(text: str, name: str) -> JsonValue:
    """Return an int64 or a float; the text of a prefixed number beyond 64 bits. Whole floats are integers in JSON."""
    number = _integer(text) if name == "int" else float(_FLOATS.get(text.lower().lstrip("+"), text))
    if isinstance(number, float):
        if not math.isfinite(number):
            raise SyntaxProblemError(f"json: unsupported value: {go_float(number)}")
        return whole_numbers(number)
    return number


def _integer(scalar: str) -> int | float | str:
    if len(scalar) < 19 and scalar.isdecimal() and (scalar[0] != "0" or len(scalar) == 1):
        return int(scalar)
    text = scalar.replace("_", "")
    sign, digits = (-1 if text[:1] == "-" else 1), text.lstrip("+-")
    base = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2], 8 if len(digits) > 1 and digits[0] == "0" else 10)
    # 67 digits hold 64 bits and a prefix. Python refuses to convert thousands of decimal digits.
    try:
        number = sign * int(digits, base) if len(digits) <= 67 else None
    except ValueError:
        return scalar
    if number is not None and -(1 << 63) <= number < 1 << 64:
        return number if number < 1 << 63 else float(number)
    return float(text) if digits.isdecimal() else scalar


_SHORT: Final = 32
"""Characters of a plain scalar whose value is remembered."""
_TAG: Final = "tag:yaml.org,2002:"
_STRING: Final = f"{_TAG}str"
_NATIVE_TAGS: Final = frozenset(["null", "bool", "int", "float", "binary", "merge"])
_IGNORED_TAGS: Final = frozenset(f"{_TAG}{name}" for name in ("map", "seq", "set", "omap", "pairs"))
_TRUE: Final = frozenset(["y", "yes", "true", "on"])
_FLOATS: Final = {".inf": "inf", "-.inf": "-inf", ".nan": "nan"}
_SCALARS: Final = (
    (
        "bool",
        "yYnNtTfFoO",
        re.compile(
            r"(?:y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)\Z",
        ),
    ),
    ("int", "-+0123456789", re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)\Z")),
    (
        "float",
        "-+.0123456789",
        re.compile(
            r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
        ),
    ),
)
AMBIGUOUS: Final = _SCALARS
"""Patterns of plain scalars that are not strings, with their first characters."""


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the patterns of plain scalars by first character: numbers and booleans as goyaml reads them, no times."""
    resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for name, firsts, pattern in (*_SCALARS, *_OTHERS):
        for first in firsts or [""]:
            resolvers.setdefault(first, []).append((f"{_TAG}{name}", pattern))
    return resolvers


_OTHERS: Final = (
    ("null", ("~", "n", "N", ""), re.compile(r"(?:~|null|Null|NULL|)\Z")),
    ("merge", ("<",), re.compile(r"<<\Z")),
)
_RESOLVERS: Final = _resolvers()
