"""Parse YAML request bodies, with Go's error messages and strict-decoding warnings. Pure.

Few servers get YAML, so this module is imported on first use.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/json/json.go (v1.36), sigs.k8s.io/yaml.
"""

from __future__ import annotations

import base64
import json
import math
import re
from typing import ClassVar, Final

import yaml

from opsdk.apiserver.serializer.documents import (
    HALF_CHARACTER,
    MAX_DEPTH,
    ParsedDocument,
    SyntaxProblemError,
    parse_json,
)
from opsdk.apiserver.serializer.yaml_errors import utf8_words, yaml_words
from opsdk.structured_merge.go_format import go_float, go_scalar, go_syntax, whole_numbers
from opsdk.structured_merge.value import JsonValue

_MOST_NODES = 400_000


def parse_yaml(raw: bytes) -> ParsedDocument:
    """Parse YAML as JSON: keys become strings, times stay strings. Only the first document is read."""
    text = _yaml_text(raw)
    if raw[:1] == b"{" and b"\t" not in raw and not HALF_CHARACTER.search(raw):
        # Most clients apply JSON, whose parser is fifty times faster. Where it fails, YAML may still be right, or has
        # the words for it; tabs and halves of characters are YAML's to refuse. So is a key that stands twice.
        try:
            parsed = parse_json(raw)
        except SyntaxProblemError:
            pass
        else:
            if not parsed.complaints:
                return parsed
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        tree = None
        while tree is None and loader.check_data():  # type: ignore[no-untyped-call]
            tree = loader.get_data()
        # Whole floats are integers in the JSON that is made of YAML.
        return ParsedDocument(whole_numbers(_Plain(_MOST_NODES + len(raw)).of(tree)), tuple(loader.repeated), yaml=True)
    except yaml.YAMLError as error:
        raise SyntaxProblemError(f"yaml: {yaml_words(error)}") from None
    except RecursionError:
        raise SyntaxProblemError("yaml: exceeded max depth") from None
    except ValueError as error:
        # Dates and numbers that match the pattern and do not convert.
        raise SyntaxProblemError(f"yaml: {error}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _yaml_text(raw: bytes) -> str:
    """The characters of a document, whose first bytes may say how they are written."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SyntaxProblemError(f"yaml: {utf8_words(error)}") from None


class _Loader(yaml.SafeLoader):
    """Timestamps are strings in JSON; keys that stand twice are remembered."""

    bool_values: ClassVar[dict[str, bool]] = {**yaml.SafeLoader.bool_values, "y": True, "n": False}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.repeated: list[str] = []
        self._depth = 0
        self._merged_left = _MOST_NODES + len(text)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """With a bound on the depth."""
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                raise yaml.YAMLError("exceeded max depth")
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Resolve ``<<`` keys, with a bound on the result: a chain of them can double it with each link."""
        super().flatten_mapping(node)  # flattens the merged mappings first, with this method
        self._merged_left -= len(node.value)
        if self._merged_left < 0:
            raise yaml.YAMLError("document contains excessive aliasing")

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[JsonValue, JsonValue]:
        """With text for keys, as JSON has it: 1 and true are two of them."""
        self.flatten_mapping(node)
        mapping: dict[JsonValue, JsonValue] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (dict, list)):
                raise yaml.YAMLError(f"invalid map key: {go_syntax(key)}")
            if key is None:
                value_text = go_syntax(self.construct_object(value_node, deep=True))
                text = f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {value_text}"
                raise SyntaxProblemError(text)
            key = key if isinstance(key, str) else go_scalar(key)
            if key in mapping:
                self.repeated.append(f"line {key_node.start_mark.line + 1}: key {json.dumps(key)} already set in map")
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping

    def construct_number(self, node: yaml.ScalarNode) -> int | float | str:
        """An int64, with octal numbers of both kinds; else a float; text if it is not decimal and 64 bits do not do."""
        scalar = str(self.construct_scalar(node))
        text = scalar.replace("_", "")
        sign, digits = (-1 if text[:1] == "-" else 1), text.lstrip("+-")
        base = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2], 8 if len(digits) > 1 and digits[0] == "0" else 10)
        # 67 digits: 64 bits and a prefix. Python refuses to convert thousands of decimal digits.
        number = sign * int(digits, base) if len(digits) <= 67 else None
        if number is not None and -(1 << 63) <= number < 1 << 64:
            return number if number < 1 << 63 else float(number)
        return float(text) if digits.isdecimal() else scalar

    def construct_text(self, node: yaml.ScalarNode) -> str:
        """The text that ``!!binary`` stands for."""
        try:
            return base64.b64decode(str(self.construct_scalar(node)), validate=True).decode("utf-8", "replace")
        except ValueError:
            raise yaml.YAMLError("!!binary value contains invalid base64 data") from None

    def construct_untagged(self, node: yaml.Node) -> JsonValue:
        """Ignore an unknown tag."""
        if isinstance(node, yaml.ScalarNode):
            tag = self.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]
            return self.construct_object(yaml.ScalarNode(tag, node.value, node.start_mark, node.end_mark), deep=True)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_sequence(node, deep=True)
        return self.construct_mapping(node, deep=True) if isinstance(node, yaml.MappingNode) else None


def _resolvers(loader: type[yaml.SafeLoader]) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Which plain scalars are what: numbers and truth values as the server reads them; times are text."""
    changed = {f"{_TAG}{name}" for name in ("timestamp", *(name for name, _, _ in _SCALARS))}
    resolvers = {
        first: [(tag, pattern) for tag, pattern in candidates if tag not in changed]
        for first, candidates in loader.yaml_implicit_resolvers.items()
    }
    for name, firsts, pattern in _SCALARS:
        for first in firsts:
            resolvers.setdefault(first, []).append((f"{_TAG}{name}", pattern))
    return resolvers


_TAG: Final = "tag:yaml.org,2002:"
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
_Loader.yaml_implicit_resolvers = _resolvers(yaml.SafeLoader)
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_number)
_Loader.add_constructor(f"{_TAG}binary", _Loader.construct_text)
_Loader.add_constructor(None, _Loader.construct_untagged)
AMBIGUOUS: Final = _SCALARS
"""Scalars, with their first characters, that a text is taken for where it is written without quotes."""


class _Plain:
    """Writes out what aliases stand for, up to a number of values: a few of them can stand for terabytes."""

    def __init__(self, max_nodes: int) -> None:
        self._left = max_nodes

    def of(self, value: JsonValue) -> JsonValue:
        """A copy that shares nothing within itself."""
        self._left -= 1
        if self._left < 0:
            raise yaml.YAMLError("document contains excessive aliasing")
        if isinstance(value, dict):
            return {key: self.of(part) for key, part in value.items()}
        if isinstance(value, str) and not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise yaml.YAMLError("found invalid Unicode character escape code")
        if isinstance(value, float) and not math.isfinite(value):
            raise SyntaxProblemError(f"json: unsupported value: {go_float(value)}")
        return [self.of(part) for part in value] if isinstance(value, list) else value
