"""Request bodies: bytes to trees, strictly or not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import yaml

from opsdk.apiserver import problems
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.negotiate import JSON, PROTOBUF, YAML
from opsdk.apiserver.resources import Installed, ResourceInfo
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import ApiError, DecodeError, UnsupportedMediaTypeError

LIMIT = 3 * 1024 * 1024
"""Bytes that a request body may have."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A tree, and the keys that stood in it twice."""

    tree: Any
    duplicates: tuple[str, ...] = ()


class SyntaxProblemError(Exception):
    """The bytes are no JSON or YAML; the text is the parser's, in the words of the server."""


def media_type(call: Call) -> str:
    """The content type without parameters; JSON where none is given."""
    return call.http.header("content-type").partition(";")[0].strip().lower() or JSON


def unsupported_media(accepted: str = f"{JSON}, {YAML}, {PROTOBUF}") -> ApiError:
    """The answer to other content types."""
    return UnsupportedMediaTypeError(
        f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    )


def parse_json(raw: bytes) -> Parsed:
    """JSON, telling of keys that occur twice."""
    duplicates: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> Tree:
        made: Tree = dict(found)
        if len(made) != len(found):
            keys = [key for key, _ in found]
            duplicates.extend(key for at, key in enumerate(keys) if key in keys[:at])
        return made

    try:
        return Parsed(json.loads(raw, object_pairs_hook=pairs), tuple(duplicates))
    except RecursionError:
        raise SyntaxProblemError("exceeded max depth") from None
    except UnicodeDecodeError:
        raise SyntaxProblemError("invalid UTF-8") from None
    except json.JSONDecodeError as error:
        raise SyntaxProblemError(_go_words(raw, error)) from None


def _go_words(raw: bytes, error: json.JSONDecodeError) -> str:
    text = error.doc
    at = error.pos
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    if at >= len(text) or "Unterminated" in error.msg or not raw.strip():
        return "unexpected end of JSON input"
    where = "after top-level value" if error.msg == "Extra data" else "looking for beginning of value"
    if "property name" in error.msg:
        where = "looking for beginning of object key string"
    elif "',' delimiter" in error.msg:
        where = "after object key:value pair"
    elif "':' delimiter" in error.msg:
        where = "after object key"
    return f"invalid character '{text[at]}' {where}"


def parse_yaml(raw: bytes) -> Parsed:
    """YAML as JSON: keys become strings, times stay strings."""
    if raw[:1] == b"{" and b"\t" not in raw:
        # Most clients apply JSON, whose parser is fifty times faster. Where it fails, YAML may still be right, or has
        # the words for it; tabs are YAML's to refuse.
        try:
            return Parsed(json.loads(raw, parse_constant=_no_constant))
        except (ValueError, RecursionError):
            pass
    try:
        # Of several documents the first one counts.
        documents = yaml.load_all(raw, Loader=_Loader)
        return Parsed(_json_keys(next((d for d in documents if d is not None), None)))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise SyntaxProblemError(f"yaml: {line}{getattr(error, 'problem', None) or error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class _Loader(yaml.SafeLoader):
    """Timestamps are strings in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _json_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(k): _json_keys(v) for k, v in value.items()}
    return [_json_keys(v) for v in value] if isinstance(value, list) else value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _shown(raw: bytes) -> str:
    """The begin of a body, as error messages show it."""
    if not raw:
        return "<empty>"
    text = raw.decode(errors="replace")
    if text.lstrip()[:1] == "{":
        return f"{text[:30]} ..." if len(text) > 30 else text
    return raw.hex()


def unrecognized(kind: str, why: str, raw: bytes) -> ApiError:
    """The answer to bytes that are no object."""
    return problems.bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({_shown(raw)})")


async def read_tree(call: Call, served: Installed) -> Parsed:
    """The body of a create or update."""
    info = served.info
    media = media_type(call)
    if media not in (JSON, YAML, PROTOBUF):
        raise unsupported_media()
    raw = await call.http.body(LIMIT)
    if media == PROTOBUF:
        return Parsed(read_protobuf(served, raw))
    try:
        parsed = parse_yaml(raw) if media == YAML else parse_json(raw)
    except SyntaxProblemError as error:
        prefix = "" if media == YAML else "couldn't get version/kind; json parse error: "
        raise unrecognized(info.kind, f"{prefix}{error}", raw) from None
    tree = {} if parsed.tree is None else parsed.tree
    if not isinstance(tree, dict):
        what = {list: "array", str: "string", bool: "bool"}.get(type(tree), "number")
        why = (
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go value of type"
            " struct { APIVersion string; Kind string }"
        )
        raise unrecognized(info.kind, why, raw)
    return Parsed(tree, parsed.duplicates)


def read_protobuf(served: Installed, raw: bytes) -> Tree:
    """A protobuf body as a tree."""
    try:
        return served.model.from_protobuf(raw)
    except (DecodeError, UnicodeDecodeError, ValueError) as error:
        why = f"the object provided is unrecognized (must be of type {served.info.kind}): {error}"
        raise problems.bad_request(why) from None


def check_kind(tree: Tree, info: ResourceInfo) -> None:
    """Fill in apiVersion and kind, or refuse other ones."""
    wanted = info.kind_api_version
    found, kind = tree.get("apiVersion") or wanted, tree.get("kind") or info.kind
    if kind != info.kind:
        raise problems.bad_request(
            f'{kind} in version "{found.rpartition("/")[2]}" cannot be handled as a {info.kind}:'
            f' no kind "{kind}" is registered'
        )
    if found != wanted:
        raise problems.bad_request(
            f"the API version in the data ({found}) does not match the expected API version ({wanted})"
        )
    tree["apiVersion"], tree["kind"] = wanted, info.kind


def decode(call: Call, served: Installed, tree: Tree, *, validation: str, duplicates: tuple[str, ...] = ()) -> Tree:
    """The object as its model reads it; problems refuse (Strict), warn (Warn) or are dropped (Ignore)."""
    info = served.info
    try:
        decoded = served.model.decode(tree)
    except DecodeError as error:
        version = info.kind_api_version.rpartition("/")[2]
        raise problems.bad_request(
            f'{info.kind} in version "{version}" cannot be handled as a {info.kind}: {error}'
        ) from None
    found = [*(f'duplicate field "{key}"' for key in duplicates), *decoded.problems]
    report(call, info, found, validation)
    return decoded.obj


def report(call: Call, info: ResourceInfo, found: list[str], validation: str) -> None:
    """What a strict decoding found: an error, warnings or nothing."""
    if not found or validation == "Ignore":
        return
    if validation == "Strict":
        version = info.kind_api_version.rpartition("/")[2]
        raise problems.bad_request(
            f'{info.kind} in version "{version}" cannot be handled as a {info.kind}:'
            f" strict decoding error: {', '.join(found)}"
        )
    for text in found:
        call.warn(text)
