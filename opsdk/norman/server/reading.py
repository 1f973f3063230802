"""The body of a request: JSON, YAML or a form.

Upstream: github.com/rancher/norman/parse/read_input.go, parse/parse.go
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from opsdk.aio.large_work import compute
from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml
from opsdk.errors import BadRequestError, TooLargeError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.request_rules import query_pairs
from opsdk.norman.codes import ErrorCode
from opsdk.structured_merge.value import JsonObject, JsonValue

MAX_BODY_BYTES = 2 << 20
"""The largest body."""

MAX_YAML_BYTES = 256 << 10
"""The largest body in YAML: parsing 1 MiB of YAML blocks all other requests for seconds."""

_YAML_TYPES = ("application/yaml", "text/yaml", "application/x-yaml")
_MAX_PART_HEAD_BYTES = 8 << 10
# What precedes the first boundary, and what follows it.
_FEWEST_PARTS = 2

_MAX_FORM_FIELDS = 1000
"""The most fields of a form."""


async def read_body(request: HttpRequest, *, limit: int = MAX_BODY_BYTES) -> JsonObject:
    """Return the body as an object; an empty one is ``{}``. The values of a form are lists of strings.

    Args:
        request: the request.
        limit: most bytes of the body.

    Raises:
        NormanError: InvalidBodyContent; the body is too large, breaks off, does not parse or is not an object.
    """
    try:
        raw = await request.body(limit=limit)
    except TooLargeError as error:
        raise ErrorCode.INVALID_BODY_CONTENT.error(f"the body has more than {limit >> 10} KiB") from error
    except BadRequestError as error:
        raise ErrorCode.INVALID_BODY_CONTENT.error(str(error)) from error
    if not raw.strip():
        return {}
    data = await compute(len(raw), _parse, raw, request.header("content-type"))
    if not isinstance(data, dict):
        raise ErrorCode.INVALID_BODY_CONTENT.error("Failed to parse body: it must be an object")
    return data


def _is_yaml(content_type: str) -> bool:
    return _media_type(content_type) in _YAML_TYPES


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _parse(raw: bytes, content_type: str) -> JsonValue:
    """Parse a body by its media type; JSON is the default. It may run in a thread."""
    media_type = _media_type(content_type)
    if len(raw) > MAX_YAML_BYTES and _is_yaml(content_type):
        reason = f"more than {MAX_YAML_BYTES >> 10} KiB of YAML; send JSON"
        raise ErrorCode.INVALID_BODY_CONTENT.error(f"Failed to parse body: {reason}")
    try:
        if media_type == "application/x-www-form-urlencoded":
            _check_fields(raw.count(b"&"))
            return _values(query_pairs(raw.decode()))
        if media_type == "multipart/form-data":
            return _values(_multipart(raw, content_type))
        if not _is_yaml(content_type):
            return msgspec.json.decode(raw)
        return parse_yaml(raw).tree
    except (msgspec.DecodeError, SyntaxProblemError, ValueError, RecursionError) as error:
        text = "the nesting is too deep" if isinstance(error, RecursionError) else str(error)
        raise ErrorCode.INVALID_BODY_CONTENT.error(f"Failed to parse body: {text}") from error


def _values(pairs: Iterable[tuple[str, str]]) -> JsonObject:
    """Return the values of a form; a field of a schema takes the first one, or all if it is a list."""
    values: JsonObject = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return values


def _check_fields(count: int) -> None:
    if count > _MAX_FORM_FIELDS:
        raise ValueError(f"a form has at most {_MAX_FORM_FIELDS} fields")


def _multipart(raw: bytes, content_type: str) -> list[tuple[str, str]]:
    """Return the fields of a form. The parser of ``email`` needs seconds for a megabyte of short lines.

    Upstream: RFC 7578; https://html.spec.whatwg.org/multipage/form-control-infrastructure.html (multipart/form-data)
    """
    boundary = _parameter(content_type, "boundary")
    delimiter = b"\r\n--" + boundary.encode()
    body = b"\r\n" + raw
    _check_fields(body.count(delimiter) - 1)  # the last one ends the form
    parts = body.split(delimiter)
    if not boundary or len(parts) < _FEWEST_PARTS:
        raise ValueError("the multipart form cannot be split: check the boundary in Content-Type")
    fields = []
    for part in parts[1:]:
        if part.startswith(b"--"):
            break
        head, _, content = part.partition(b"\r\n\r\n")
        lines = head[:_MAX_PART_HEAD_BYTES].decode("utf-8", "replace").split("\r\n")
        disposition = next((line for line in lines if line.lower().startswith("content-disposition:")), "")
        if name := _parameter(disposition, "name"):
            fields.append((name, content.decode("utf-8", "replace")))
    return fields


def _parameter(header: str, name: str) -> str:
    """Return a parameter of a header, or an empty string. Browsers escape quotes in names as ``%22``.

    >>> _parameter('form-data; name="a;b"; filename=c', "name"), _parameter("text/plain;boundary=x", "boundary")
    ('a;b', 'x')
    """
    _, separator, value = f";{header.replace('; ', ';')}".partition(f";{name}=")
    if not separator:
        return ""
    quoted = value.startswith('"')
    return value[1:].partition('"')[0].replace("%22", '"') if quoted else value.partition(";")[0].strip()
