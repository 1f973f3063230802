"""The body of a request: JSON, YAML or a form.

Upstream: github.com/rancher/norman/parse/read_input.go, parse/parse.go
"""

from __future__ import annotations

from collections.abc import Iterable
from email.parser import BytesParser
from email.policy import HTTP

import msgspec
import yaml

from opsdk.errors import BadRequestError, TooLargeError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.request_rules import query_pairs
from opsdk.norman.body import MAX_DEPTH
from opsdk.norman.codes import ErrorCode
from opsdk.structured_merge.value import JsonObject, JsonValue

MAX_BODY_BYTES = 2 << 20
"""The largest body."""

MAX_YAML_BYTES = 256 << 10
"""The largest body in YAML: parsing 1 MiB of YAML blocks all other requests for seconds."""

# The C parser is five times faster, but not available on all platforms.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# An alias repeats the value of its anchor, also under the key <<; a few lines can expand to gigabytes.
_MAX_YAML_VALUES = 100_000


async def read_body(request: HttpRequest) -> JsonObject:
    """Return the body as an object; an empty one is ``{}``.

    Raises:
        NormanError: InvalidBodyContent; the body is too large, does not parse or is not an object.
    """
    try:
        raw = await request.body(limit=MAX_BODY_BYTES)
    except TooLargeError as error:
        raise ErrorCode.INVALID_BODY_CONTENT.error(f"the body has more than {MAX_BODY_BYTES >> 20} MiB") from error
    except BadRequestError as error:
        raise ErrorCode.INVALID_BODY_CONTENT.error(str(error)) from error
    if not raw.strip():
        return {}
    data = _parse(raw, request.header("content-type"))
    if not isinstance(data, dict):
        raise ErrorCode.INVALID_BODY_CONTENT.error("Failed to parse body: it must be an object")
    return data


def _parse(raw: bytes, content_type: str) -> JsonValue:
    media_type = content_type.partition(";")[0].strip().lower()
    try:
        if media_type == "application/x-www-form-urlencoded":
            return _values(query_pairs(raw.decode()))
        if media_type == "multipart/form-data":
            return _multipart(raw, content_type)
        if media_type in ("application/yaml", "text/yaml", "application/x-yaml"):
            return _yaml(raw)
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        text = "the nesting is too deep" if isinstance(error, RecursionError) else str(error)
        raise ErrorCode.INVALID_BODY_CONTENT.error(f"Failed to parse body: {text}") from error


def _values(pairs: Iterable[tuple[str, str]]) -> JsonObject:
    """Return the values of a form; a field of a schema takes the first one, or all if it is a list."""
    values: JsonObject = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return values


def _multipart(raw: bytes, content_type: str) -> JsonObject:
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + raw)
    if not message.is_multipart():
        raise ValueError("the multipart form cannot be split: check the boundary in Content-Type")
    parts = [(part.get_param("name", header="content-disposition"), part) for part in message.iter_parts()]
    return _values((str(name), str(part.get_content()).removesuffix("\n")) for name, part in parts if name)


def _yaml(raw: bytes) -> JsonValue:
    if len(raw) > MAX_YAML_BYTES:
        raise ValueError(f"more than {MAX_YAML_BYTES >> 10} KiB of YAML; send JSON")
    _check_yaml_size(raw)
    value = yaml.load(raw, Loader=_Loader)  # noqa: S506 - a safe one
    # Dates and keys become strings; types without a JSON form are rejected.
    return msgspec.json.decode(msgspec.json.encode(value))


def _check_yaml_size(raw: bytes) -> None:
    """Raise before any value is built: the parser takes minutes for a hundred thousand open brackets."""
    sizes: dict[str, int] = {}  # number of values of each anchor, including expanded aliases
    open_collections: list[tuple[str, int]] = []
    total = 0
    for event in yaml.parse(raw, Loader=_Loader):
        anchor = getattr(event, "anchor", None) or ""
        if isinstance(event, yaml.AliasEvent):
            total += sizes.get(anchor, 0)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_collections.append((anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_collections.pop()
            sizes[anchor] = total - before
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            sizes[anchor] = 1
        if total > _MAX_YAML_VALUES or len(open_collections) > MAX_DEPTH:
            raise ValueError(f"more than {_MAX_YAML_VALUES} values with aliases, or more than {MAX_DEPTH} levels")
