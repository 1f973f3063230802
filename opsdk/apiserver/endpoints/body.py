"""Reads and decodes request bodies with field validation.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/rest.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from opsdk.apimachinery.serializer.documents import (
    NumberProblemError,
    ParsedDocument,
    SyntaxProblemError,
    json_kind,
    parse_json,
)
from opsdk.apimachinery.serializer.yaml_documents import parse_yaml
from opsdk.apiserver import api_errors
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.negotiation import JSON, PROTOBUF, YAML
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.resources import InstalledResource, ResourceInfo
from opsdk.apiserver.serializer.raw import keep_text
from opsdk.base.limits import LIMITS
from opsdk.errors import ApiError, DecodeError, UnsupportedMediaTypeError
from opsdk.structured_merge.value import JsonObject

_SCHEME = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"
_SCHEMES = {"apiextensions.k8s.io": "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55"}
"""Source positions of other schemes by group, for error messages."""
_SCALES = "k8s.io/client-go/scale/util.go:146"
"""Source position of the scheme of custom resource scales."""
_NO_SCALE = (
    "no kind is registered for the type v1.Scale in scheme"
    ' "k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:781"'
)
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def media_type(call: Call) -> str:
    """Return the content type without parameters; JSON by default, empty if it is malformed."""
    header = call.http.header("content-type")
    if not header or header == JSON:
        return JSON
    match = _MEDIA.fullmatch(header)
    return match[1].lower() if match else ""


_MEDIA = re.compile(
    r"""\s*+([!#$%&'*+.^_`|~\w-]++(?:/[!#$%&'*+.^_`|~\w-]++)?)\s*+"""
    r"""(?:;\s*+[!#$%&'*+.^_`|~\w-]++=(?:[!#$%&'*+.^_`|~\w-]++|"(?:[^"\\]|\\.)*+")\s*+)*;?+\s*+""",
    re.ASCII,
)
"""A media type with its parameters. Nothing is tried twice: the header may hold a megabyte of blanks.

Before Python 3.11.5, an iteration of ``(...)*+`` that fails keeps what it consumed (gh-106052): the groups use ``*``.
"""


def unsupported_media(accepted: str = f"{JSON}, {YAML}, {PROTOBUF}") -> ApiError:
    """Return the 415 of an unsupported content type."""
    return UnsupportedMediaTypeError(
        f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    )


def unrecognized(kind: str, reason: str, raw: bytes) -> ApiError:
    """Return the 400 of a body that is not an object."""
    text = raw.decode(errors="replace")
    if not raw:
        text = "<empty>"
    elif text.lstrip()[:1] != "{":
        text = raw.hex()
    elif len(text) > 30:
        text = f"{text[:30]} ..."
    return api_errors.bad_request(f"the object provided is unrecognized (must be of type {kind}): {reason} ({text})")


def cannot_handle(info: ResourceInfo, reason: str) -> ApiError:
    """Return the 400 of a body that does not decode as its kind."""
    version = info.kind_api_version.rpartition("/")[2]
    return api_errors.bad_request(f'{info.kind} in version "{version}" cannot be handled as a {info.kind}: {reason}')


async def read_tree(call: Call, served: InstalledResource, context: Context) -> ParsedDocument:
    """Read the body of a create or update."""
    media = media_type(call)
    if media not in (JSON, YAML, PROTOBUF):
        raise unsupported_media()
    raw = await call.http.body(LIMITS.body_bytes)
    context.size = len(raw)
    document = call.http.document
    if document is not None and served.model.typed and not served.info.raw_field:
        # Decoding a built-in kind makes new objects and lists: the client's tree stays as it is.
        return ParsedDocument(dict(document), raw=raw)
    return await context.compute(_parse_tree, served, media, raw)


def _parse_tree(served: InstalledResource, media: str, raw: bytes) -> ParsedDocument:
    """Parse a body of this media type to a tree. Raises the server's error for the syntax."""
    info = served.info
    if media == PROTOBUF:
        return ParsedDocument(read_protobuf(served, raw))
    try:
        parsed = parse_yaml(raw) if media == YAML else parse_json(raw)
    except NumberProblemError as error:
        raise cannot_handle(info, str(error)) from None
    except SyntaxProblemError as error:
        prefix = "" if media == YAML else "couldn't get version/kind; json parse error: "
        raise unrecognized(info.kind, f"{prefix}{error}", raw) from None
    tree = {} if parsed.tree is None else parsed.tree
    if not isinstance(tree, dict):
        raise unrecognized(info.kind, _no_type(tree, f"Go value of type {_TYPE_META}"), raw)
    if info.raw_field and media == JSON:
        keep_text(tree, info.raw_field, raw)
    return ParsedDocument(tree, parsed.complaints, parsed.yaml, raw)


def read_protobuf(served: InstalledResource, raw: bytes) -> JsonObject:
    """Decode a protobuf body."""
    try:
        return served.model.from_protobuf(raw)
    except (DecodeError, UnicodeDecodeError, ValueError) as error:
        raise unrecognized(served.info.kind, str(error), raw) from None


def _no_type(value: object, go_type: str) -> str:
    return f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_kind(value)} into {go_type}"


def type_named(tree: object) -> tuple[str, str]:
    """Return a document's apiVersion and kind. Raises a 400 if they are not strings."""
    if not isinstance(tree, dict):
        raise api_errors.bad_request(_no_type(tree, f"Go value of type {_TYPE_META}"))
    for key in ("apiVersion", "kind"):
        if tree.get(key) is not None and not isinstance(tree[key], str):
            raise api_errors.bad_request(_no_type(tree[key], f"Go struct field .{key} of type string"))
    version = tree.get("apiVersion") or ""
    if version.count("/") > 1:
        raise api_errors.bad_request(f"unexpected GroupVersion string: {version}")
    return version, tree.get("kind") or ""


def check_kind(served: InstalledResource, parsed: ParsedDocument) -> None:
    """Set apiVersion and kind if they are empty. Raises a 400 if they differ from the resource's."""
    tree, info = parsed.tree, served.info
    expected = info.kind_api_version
    try:
        api_version, kind = type_named(tree)
    except ApiError as error:
        raise unrecognized(info.kind, error.message, parsed.raw) from None
    if served.model.typed:
        api_version, kind = api_version or expected, kind or info.kind
        if (api_version, kind) != (expected, info.kind):
            _refuse_type(served, api_version, kind)
    elif not kind:
        body_text = parsed.raw.decode(errors="replace")
        raise unrecognized(info.kind, f"Object 'Kind' is missing in '{body_text}'", parsed.raw)
    if served.model.typed:
        _check_version(served, api_version)
    # For custom objects, `decode` checks the version after unknown fields, and the schema checks the kind.
    tree["apiVersion"], tree["kind"] = api_version, kind


def _check_version(served: InstalledResource, api_version: str) -> None:
    expected = served.info.kind_api_version
    if api_version != expected:
        api_version = api_version.strip("/") and api_version
        raise api_errors.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )


def _refuse_type(served: InstalledResource, api_version: str, kind: str) -> None:
    """Raise a 400 for a built-in type that cannot be converted to the resource's kind."""
    info = served.info
    type_text = served.model.type_named(api_version, kind)
    group = info.kind_api_version.rpartition("/")[0]
    if type_text and kind == info.kind and api_version.rpartition("/")[0] == group:
        return
    reason = unregistered(served, api_version, kind)
    if type_text:
        reason = f"converting ({type_text}) to ({group.partition('.')[0] or 'core'}.{info.kind}): unknown conversion"
    version = api_version.rpartition("/")[2]
    raise api_errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {info.kind}: {reason}')


def unregistered(served: InstalledResource, version: str, kind: str) -> str:
    """Return the error text for a kind that is not registered."""
    group = served.info.kind_api_version.rpartition("/")[0]
    scheme = _SCALES if served.custom and served.info.kind == "Scale" else _SCHEMES.get(group, _SCHEME)
    return f'no kind "{kind}" is registered for version "{version}" in scheme "{scheme}"'


def decode(call: Call, served: InstalledResource, parsed: ParsedDocument, *, validation: str) -> JsonObject:
    """Decode the object; strict-decoding errors are errors (Strict), warnings (Warn) or dropped (Ignore)."""
    info = served.info
    try:
        decoded = served.model.decode(parsed.tree)
    except DecodeError as error:
        if served.custom and info.kind == "Scale":
            raise api_errors.bad_request(_NO_SCALE) from None
        raise cannot_handle(info, str(error)) from None
    complaints = parsed.strict if validation == "Strict" else parsed.complaints
    report_complaints(call, info, [*complaints, *decoded.problems], validation)
    _check_version(served, parsed.tree["apiVersion"])
    return decoded.obj


def report_complaints(call: Call, info: ResourceInfo, complaints: Sequence[str], validation: str) -> None:
    """Report strict-decoding errors as an error, as warnings or not at all."""
    if not complaints or validation == "Ignore":
        return
    if validation == "Strict":
        raise cannot_handle(info, f"strict decoding error: {', '.join(complaints)}")
    for text in complaints:
        call.warn(text)
