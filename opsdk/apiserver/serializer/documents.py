"""Parse JSON and YAML request bodies, with Go's error messages and strict-decoding warnings. Pure.

The standard parser accepts or rejects a document. A slower pass runs only to word the error, to name duplicate keys,
and for long numbers and surrogate escapes, which Go reads differently.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/json/json.go (v1.36), sigs.k8s.io/json, sigs.k8s.io/yaml.
Deviates: documents that are nested deeper than `MAX_DEPTH` are rejected; Go's limit is 10,000.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import msgspec
import yaml

from opsdk.apiserver.serializer.json_errors import first_fault
from opsdk.apiserver.serializer.yaml_errors import utf8_words, yaml_words
from opsdk.structured_merge.go_format import go_float, go_scalar, go_syntax, whole_numbers
from opsdk.structured_merge.value import JsonObject, JsonValue

MAX_DEPTH: Final = 200
"""The deepest nesting of objects and lists; no Kubernetes API has objects this deep."""

_MOST_NODES = 400_000
_LONG_NUMBER = re.compile(rb"\d{18}|[eE]\+?\d{3}")
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_INT64 = 2**63


class SyntaxProblemError(Exception):
    """The bytes are not JSON or YAML; the message is that of Go's parser."""


class NumberProblemError(SyntaxProblemError):
    """The syntax is valid, but a number does not fit Go's int64 or float64."""


class ParsedDocument(msgspec.Struct, frozen=True):
    """A parsed document and its duplicate keys.

    Attributes:
        complaints: one text each.
        yaml: the document was YAML, where strict reading tells of all complaints in one text.
        raw: the bytes that were read, where somebody may want to show them.
    """

    tree: JsonValue
    complaints: tuple[str, ...] = ()
    yaml: bool = False
    raw: bytes = b""

    @property
    def strict(self) -> tuple[str, ...]:
        """The complaints as an error has them."""
        if not self.yaml or not self.complaints:
            return self.complaints
        return ("\n  ".join(("yaml: unmarshal errors:", *self.complaints)),)


def json_kind(value: JsonValue) -> str:
    """The decoder's word for the type of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        return "number"
    return "array" if isinstance(value, list) else "object"


# ------------------------------------------------------------------ JSON
class _Pairs(list[tuple[str, JsonValue]]):
    """An object with all its keys, also those that stand twice."""


def parse_json(raw: bytes) -> ParsedDocument:
    """JSON, telling of keys that occur twice."""
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

    careful: Any = {"parse_int": _integer, "parse_float": _float} if _LONG_NUMBER.search(raw) else {}
    # Bytes that are no UTF-8 become replacement characters, as with the real decoder.
    text = raw.decode("utf-8", "replace")
    try:
        tree = json.loads(text, object_pairs_hook=pairs, parse_constant=_no_constant, **careful)
    except ValueError:
        raise SyntaxProblemError(first_fault(raw) or "unexpected end of JSON input") from None
    complaints = tuple(_repeated(json.loads(text, object_pairs_hook=_Pairs))) if repeated else ()
    if b"\\u" in raw:
        tree = _without_surrogates(tree)
    return ParsedDocument(tree, complaints)


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON")


def _integer(text: str) -> int | float:
    number = int(text) if len(text) < 21 else float(text)
    return number if isinstance(number, int) and -_INT64 <= number < _INT64 else _float(text)


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NumberProblemError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return number


def _repeated(value: JsonValue, path: str = "") -> Iterator[str]:
    """The paths of keys that stand twice, in the order of the document."""
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
    """Halves of characters, which escapes can write, become replacement characters."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(part) for key, part in value.items()}
    return [_without_surrogates(part) for part in value] if isinstance(value, list) else value


# ------------------------------------------------------------------ YAML
def parse_yaml(raw: bytes) -> ParsedDocument:
    """Parse YAML as JSON: keys become strings, times stay strings. Only the first document is read."""
    text = _yaml_text(raw)
    if raw[:1] == b"{" and b"\t" not in raw and not _HALF_CHARACTER.search(raw):
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
        # Dates and numbers that look like some and are none.
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

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """With a bound on the depth."""
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                raise yaml.YAMLError("exceeded max depth")
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

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

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """With octal numbers of both kinds."""
        text = str(self.construct_scalar(node)).replace("_", "")
        sign, digits = (-1 if text[:1] == "-" else 1), text.lstrip("+-")
        base = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2], 8 if len(digits) > 1 and digits[0] == "0" else 10)
        return sign * int(digits, base)

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
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_yaml_int)
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
