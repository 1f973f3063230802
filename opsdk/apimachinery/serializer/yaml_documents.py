"""The reader of YAML: request bodies and files, with Go's values, error messages and strict-decoding warnings. Pure.

The events of the parser become values at once: a document has no tree of nodes, no value is visited twice, and values,
aliases included, are counted as they come. libyaml, which PyYAML's wheels contain, is ten times as fast as PyYAML's own
parser. PyYAML takes 35 ms to import: operators import this module, and read no YAML.

libyaml ends plain scalars in ``[...]`` and ``{...}`` otherwise than goyaml. It refuses ``[001:db8::]`` as ambiguous. In
``[a?b]`` it reads one scalar, where goyaml begins a key. A stream with one of these is read again by PyYAML's scanner
with goyaml's rule: in linear time, but up to ten times as slow. `Limits.document_values` bounds it to a few seconds.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/json/json.go (v1.36), sigs.k8s.io/yaml.
Deviates: a document has at most `Limits.document_values` values.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import yaml

from opsdk.apimachinery.serializer.documents import (
    HALF_CHARACTER,
    MAX_DEPTH,
    ParsedDocument,
    SyntaxProblemError,
    parse_json,
)
from opsdk.apimachinery.serializer.yaml_errors import error_line, utf8_words, yaml_words
from opsdk.apimachinery.serializer.yaml_events import EventParser, PythonParser
from opsdk.apimachinery.serializer.yaml_lines import FieldLines
from opsdk.apimachinery.serializer.yaml_scalars import MERGE, json_number, plain_value, resolve
from opsdk.base.limits import LIMITS
from opsdk.structured_merge.go_format import go_scalar, go_syntax
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
    for document in _Documents(text, budget=LIMITS.document_values):
        if document.tree is not None:
            return document
    return ParsedDocument(None, yaml=True)


def read_documents(raw: bytes) -> list[JsonValue]:
    """Return the documents of a file in YAML or JSON, as JSON values; an empty document is None.

    A repeated key has its last value. Values are limited by the size of the file, so only aliases can exceed the limit.

    Raises:
        SyntaxProblemError: with the line of the file.
    """
    return [document.tree for document in _file_documents(raw, None)]


def read_located_documents(raw: bytes) -> tuple[list[ParsedDocument], FieldLines]:
    """Return the documents of a file with their duplicate keys, and the lines of their fields.

    Raises:
        SyntaxProblemError: with the line of the file.
    """
    lines = FieldLines()
    return _file_documents(raw, lines), lines


def _file_documents(raw: bytes, lines: FieldLines | None) -> list[ParsedDocument]:
    text = _yaml_text(raw)
    if "\t" in text and text.lstrip()[:1] in ("{", "["):
        # Tabs may indent JSON, but not YAML. In valid JSON they are outside strings.
        try:
            json.loads(text)
        except ValueError:
            pass
        else:
            text = text.replace("\t", " ")
    return list(_Documents(text, budget=max(LIMITS.document_values, len(text)), lines=lines))


def _yaml_text(raw: bytes) -> str:
    """Decode a document; a byte order mark determines the encoding."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SyntaxProblemError(f"yaml: {utf8_words(error)}") from None


class _OtherRuleError(Exception):
    """libyaml has another rule than goyaml for a plain scalar of the stream."""


class _Documents:
    """Builds the documents of a stream.

    As in goyaml, an error of the syntax counts before one of a value, wherever it stands.

    Args:
        text: the stream.
        budget: of values, for each document.
        lines: gets the lines of all fields.
        parser: of the events; None for the fastest one.
    """

    def __init__(
        self,
        text: str,
        *,
        budget: int,
        lines: FieldLines | None = None,
        parser: Any = None,
    ) -> None:
        parser = parser or EventParser
        self._text = text
        self._events = parser(text)
        self._checks_rules = parser is not PythonParser
        self._flow = 0
        self._budget = self._left = budget
        self._lines = lines
        self._fault: SyntaxProblemError | None = None
        self._anchors: dict[str, JsonValue] = {}
        self._weights: dict[str, int] = {}
        self._open: set[str] = set()
        self._repeated: list[str] = []

    def __iter__(self) -> Iterator[ParsedDocument]:
        count = 0
        try:
            for document in self._read():
                count += 1
                yield document
        except _OtherRuleError:
            again = _Documents(self._text, budget=self._budget, lines=self._lines, parser=PythonParser)
            yield from islice(again, count, None)

    def _read(self) -> Iterator[ParsedDocument]:
        try:
            self._events.get_event()  # the start of the stream
            while self._events.check_event(yaml.DocumentStartEvent):
                tree = self._document()
                yield ParsedDocument(tree, tuple(self._repeated), yaml=True)
        except yaml.YAMLError as error:
            if self._checks_rules and getattr(error, "problem", "") == "found unexpected ':'":
                raise _OtherRuleError from None
            raise SyntaxProblemError(f"yaml: {yaml_words(error)}", line=error_line(error)) from None

    def _document(self) -> JsonValue:
        """Return the next document."""
        self._events.get_event()
        self._anchors.clear()
        self._repeated.clear()
        self._left = self._budget
        value = self._value(self._events.get_event(), 1)
        self._events.get_event()
        if self._fault is not None:
            raise self._fault
        return None if value is MERGE else value

    def _value(self, event: Any, depth: int) -> JsonValue:
        """Return the value that begins with an event; `MERGE` for a plain ``<<``."""
        kind = type(event)
        budget = self._left
        self._count(1, depth)
        if kind is yaml.ScalarEvent and event.anchor is None:
            return self._scalar(event)
        if kind is yaml.AliasEvent:
            return self._alias(event, depth)
        anchor = event.anchor
        if kind is yaml.ScalarEvent:
            value = self._scalar(event)
        else:
            if anchor is not None:
                self._open.add(anchor)
            start = event.start_mark.line
            flow = bool(event.flow_style)
            self._flow += flow
            value = self._list(depth, start) if kind is yaml.SequenceStartEvent else self._mapping(depth, start)
            self._flow -= flow
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

    def _report(self, error: yaml.YAMLError | SyntaxProblemError, line: int) -> None:
        """Remember the first error of a value, which is raised behind the document. Lines count from zero."""
        if self._fault is None:
            text = f"yaml: {error}" if isinstance(error, yaml.YAMLError) else str(error)
            self._fault = SyntaxProblemError(text, line=line + 1)

    # -------------------------------------------------------------- collections
    def _list(self, depth: int, start: int) -> list[JsonValue]:
        values: list[JsonValue] = []
        lines: list[int] = []
        next_event = self._events.get_event
        while type(event := next_event()) is not yaml.SequenceEndEvent:
            if self._lines is not None:
                lines.append(event.start_mark.line + 1)
            value = self._value(event, depth + 1)
            values.append("<<" if value is MERGE else value)
        if self._lines is not None:
            self._lines.add(values, start + 1, lines)
        return values

    def _mapping(self, depth: int, start: int) -> JsonObject:
        """Convert keys to strings, as in JSON; 1 and true are then strings too."""
        mapping: JsonObject = {}
        merged: JsonObject = {}
        lines: dict[str, int] = {}
        next_event = self._events.get_event
        while type(event := next_event()) is not yaml.MappingEndEvent:
            line = event.start_mark.line
            key = self._value(event, depth + 1)
            value = self._value(next_event(), depth + 1)
            if key is MERGE:
                self._merge(merged, value, line)
                continue
            value = "<<" if value is MERGE else value
            if not isinstance(key, str):
                key = self._key(key, value, line)
            if key in mapping:
                self._repeated.append(f"line {line + 1}: key {json.dumps(key)} already set in map")
            mapping[key] = value
            if self._lines is not None:
                lines[key] = line + 1
        if merged:
            mapping = {**merged, **mapping}
        if self._lines is not None:
            self._lines.add(mapping, start + 1, lines)
        return mapping

    def _key(self, key: JsonValue, value: JsonValue, line: int) -> str:
        if isinstance(key, (dict, list)):
            self._report(yaml.YAMLError(f"invalid map key: {go_syntax(key)}"), line)
            return ""
        if key is None:
            text = f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {go_syntax(value)}"
            self._report(SyntaxProblemError(text), line)
            return ""
        return go_scalar(key)

    def _merge(self, merged: JsonObject, value: JsonValue, line: int) -> None:
        """Add the members of a mapping, or of several: the first value of a key counts."""
        for part in value if isinstance(value, list) else [value]:
            if not isinstance(part, dict):
                self._report(yaml.YAMLError("map merge requires map or sequence of maps as the value"), line)
                return
            for key, member in part.items():
                merged.setdefault(key, member)

    # -------------------------------------------------------------- aliases
    def _alias(self, event: Any, depth: int) -> JsonValue:
        anchor, line = event.anchor, event.start_mark.line
        if anchor in self._open:
            self._report(yaml.YAMLError(f"anchor '{anchor}' value contains itself"), line)
            return None
        if anchor not in self._anchors:
            raise SyntaxProblemError(f"yaml: unknown anchor '{anchor}' referenced", line=line + 1)
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
        line = event.start_mark.line
        if self._flow and self._checks_rules and "?" in text and not event.style:
            raise _OtherRuleError
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            self._report(yaml.YAMLError("found invalid Unicode character escape code"), line)
            return ""
        try:
            if (tag is None or tag == "!") and not event.implicit[0]:
                return text
            if tag in (None, "!") or not tag.startswith(_TAG) or tag in _IGNORED_TAGS:
                return plain_value(text)
            return _tagged(text, tag.removeprefix(_TAG))
        except (yaml.YAMLError, SyntaxProblemError) as error:
            self._report(error, line)
            return None


def _tagged(text: str, name: str) -> JsonValue:
    """Return the value of a scalar with a tag. Raises an error if the text does not fit the tag."""
    if name not in _NATIVE_TAGS:
        return text
    if name == "binary":
        try:
            return base64.b64decode(text, validate=True).decode("utf-8", "replace")
        except ValueError:
            raise yaml.YAMLError("!!binary value contains invalid base64 data") from None
    plain, value = resolve(text)
    if name != plain and (name, plain) != ("float", "int"):
        raise yaml.YAMLError(f"cannot decode !!{plain} `{text}` as a !!{name}")
    return json_number(value) if name in ("int", "float") else value


_TAG: Final = "tag:yaml.org,2002:"
_NATIVE_TAGS: Final = frozenset(["null", "bool", "int", "float", "binary", "merge"])
_IGNORED_TAGS: Final = frozenset(f"{_TAG}{name}" for name in ("map", "seq", "set", "omap", "pairs"))
