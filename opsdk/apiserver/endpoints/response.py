"""Encodes objects and lists as objects, Tables or PartialObjectMetadata.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/response.go (v1.36).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from opsdk.aio.clock import utc_now
from opsdk.aio.large_work import LARGE_BYTES, attempt_output, compute
from opsdk.apimachinery.serializer.yaml_writer import write_yaml
from opsdk.apiserver import api_errors
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.list_stream import Encode, ListText, list_body
from opsdk.apiserver.endpoints.negotiation import (
    JSON,
    META_GROUP,
    METADATA,
    NOTHING,
    OBJECT_KINDS,
    PROTOBUF,
    TYPED,
    WHOLE,
    YAML,
    AcceptedMediaType,
    Kinds,
    check_media,
    negotiate,
    nothing_fits,
)
from opsdk.apiserver.endpoints.protobuf_list import protobuf_list
from opsdk.apiserver.endpoints.status import error_response, status_of
from opsdk.apiserver.resources import InstalledResource
from opsdk.apiserver.storage.large_objects import LARGE_OBJECTS
from opsdk.errors import ApiError, NotAcceptableError
from opsdk.http.server.response import HttpResponse, encode_json
from opsdk.structured_merge.value import JsonObject

T = TypeVar("T")
_PLAIN, _SORTED = msgspec.json.Encoder(), msgspec.json.Encoder(order="sorted")
_SPELT = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))
_SPELT_SEPARATORS = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))
"""Characters that Go's encoder escapes, for safety in HTML."""


def _escape_html(raw: bytes) -> bytes:
    # A search for a separator takes twenty times as long as `isascii`.
    for letter, code in _SPELT if raw.isascii() else (*_SPELT, *_SPELT_SEPARATORS):
        if letter in raw:
            raw = raw.replace(letter, code)
    return raw


def compact(value: object, *, ordered: bool = False) -> bytes:
    """Encode compact JSON; `ordered` sorts all keys, as for custom resources."""
    return _escape_html(_SORTED.encode(value) if ordered else encode_json(value))


def encode(value: JsonObject, accepted: AcceptedMediaType, *, pretty: bool = False, ordered: bool = False) -> bytes:
    """Encode a body in the negotiated encoding; compact JSON ends with a newline."""
    if accepted.write is not None:
        return accepted.write(value)
    if accepted.media == YAML:
        return write_yaml(value).encode()
    raw = compact(value, ordered=ordered)
    return msgspec.json.format(raw, indent=2) if pretty else raw + b"\n"


async def body_response(
    value: JsonObject, accepted: AcceptedMediaType, *, status: int = 200, pretty: bool = False, ordered: bool = False
) -> HttpResponse:
    """Return a response with a small value in the negotiated encoding and content type."""
    raw = encode(value, accepted, pretty=pretty, ordered=ordered)
    return HttpResponse(status, [("content-type", accepted.media)], raw)


def in_order(served: InstalledResource, accepted: AcceptedMediaType) -> bool:
    """Report whether keys are sorted: those of unstructured objects are, unless transformed."""
    return not (served.model.typed or accepted.kind)


def wants_pretty(call: Call) -> bool:
    """Report whether to indent the response: for ``pretty=true``, curl and browsers."""
    pretty = call.http.query.get("pretty")
    if pretty:
        return pretty in ("1", "t", "T", "TRUE", "true", "True")
    return call.http.header("user-agent").startswith(("curl", "Wget", "Mozilla/5.0"))


class ServedKinds(enum.Enum):
    """The transformations that a resource supports."""

    NONE = "none"
    """For errors, which are never transformed."""
    WITH_TABLE = "with table"
    """Table and metadata."""
    WITHOUT_TABLE = "without table"
    """Metadata only, e.g. for access reviews."""

    __hash__ = object.__hash__  # members are singletons; an enum's own hash is ten times slower


def _preferred(call: Call, binary: frozenset[str], kinds: ServedKinds = ServedKinds.NONE) -> AcceptedMediaType:
    """Negotiate the encoding. Responses to writes prefer JSON over protobuf if the client accepts both."""
    header, streams = call.http.header("accept"), call.info.verb == "watch"
    if call.http.method != "GET":
        with suppress(NotAcceptableError):
            return _negotiated(header, kinds, NOTHING, streams)
    accepted = _negotiated(header, kinds, binary, streams)
    return replace(accepted, write=call.protobuf) if accepted.media == PROTOBUF else accepted


_KINDS: Final[Mapping[ServedKinds, Kinds]] = {
    ServedKinds.NONE: {},
    ServedKinds.WITH_TABLE: OBJECT_KINDS,
    ServedKinds.WITHOUT_TABLE: {kind: versions for kind, versions in OBJECT_KINDS.items() if kind != "Table"},
}


@lru_cache(maxsize=512)
def _negotiated(header: str, kinds: ServedKinds, binary: frozenset[str], streams: bool) -> AcceptedMediaType:
    """Negotiate with a cache: a client sends the same header with every request."""
    return negotiate(header, _KINDS[kinds], binary=binary, streams=streams)


def accepted_for(call: Call, served: InstalledResource) -> AcceptedMediaType:
    """Negotiate the response's encoding. Raises before the request has an effect."""
    typed = served.model.typed
    binary = NOTHING if call.protobuf is None else TYPED if typed and not served.custom else METADATA
    kinds = ServedKinds.WITH_TABLE if served.convertible_to_table else ServedKinds.WITHOUT_TABLE
    try:
        accepted = _preferred(call, binary, kinds)
    except NotAcceptableError:
        if not served.custom:
            raise
        # For custom resources the message is always the same.
        raise nothing_fits() from None
    if accepted.media == YAML and call.info.verb == "watch":
        raise nothing_fits(streams=True)
    if not served.custom and accepted.media == JSON and "application/*" in (header := call.http.header("accept")):
        check_media(header)
    if accepted.media == PROTOBUF:
        return accepted
    include = call.http.query.get("includeObject")
    if accepted.kind == "Table" and include not in ("", "None", "Object", "Metadata"):
        reason = f"includeObject: Invalid value: {api_errors.quoted(include)}"
        text = f"Unable to convert to Table as requested: {reason}: must be 'Metadata', 'Object', 'None', or empty"
        raise api_errors.bad_request(text)
    return accepted


def check_metadata_kind(accepted: AcceptedMediaType, served: InstalledResource, *, is_list: bool) -> None:
    """Raise if the requested metadata kind is for a list and the response is an object, or the reverse."""
    wrong = "PartialObjectMetadata" if is_list else "PartialObjectMetadataList"
    if accepted.kind != wrong:
        return
    kind = f"core.{served.info.kind}" if served.model.typed else "unstructured.Unstructured"
    if is_list:
        raise NotAcceptableError(f"you requested {wrong}, but the requested object is a list (*{kind}List)")
    if not served.model.typed:
        # Unstructured objects are treated as lists until their items are read.
        raise api_errors.plain("content is not a list")
    raise NotAcceptableError(f"you requested {wrong}, but the requested object is not a list (*{kind})")


async def object_response(
    call: Call,
    served: InstalledResource,
    obj: JsonObject,
    accepted: AcceptedMediaType,
    *,
    status: int = 200,
    size: int | None = None,
) -> HttpResponse:
    """Return the response with one stored object. Large objects are read and encoded in the thread for large work.

    A write knows about the bytes of its object: `size`.
    """
    remembered = LARGE_OBJECTS.size(obj) if LARGE_OBJECTS.sizes else None
    size = remembered if remembered is not None else size
    if size is None and (served.custom or accepted.write is not None or accepted.media == YAML):
        size = len(encode_json(obj))
    pretty, ordered, headers = wants_pretty(call), in_order(served, accepted), [("content-type", accepted.media)]
    run = compute
    if extra := columns_size(served, accepted):
        size, run = (size or 0) + extra, attempt_output
    if call.http.document is not None:
        # A client in this process reads the tree.
        return HttpResponse(status, headers, document=await run(size or 0, _shaped, call, served, obj, accepted))
    if not extra and (size is None or size <= LARGE_BYTES):
        raw = encode(_shaped(call, served, obj, accepted), accepted, pretty=pretty, ordered=ordered)
    else:
        raw = await run(
            size or 0, lambda: encode(_shaped(call, served, obj, accepted), accepted, pretty=pretty, ordered=ordered)
        )
    if remembered is not None or (len(raw) > LARGE_BYTES and not extra):  # a Table has the definitions of columns
        LARGE_OBJECTS.note(obj, len(raw))
    return HttpResponse(status, headers, raw)


_COLUMN_BYTES: Final = 64
"""What a column takes of `LARGE_BYTES`: with 256 columns, a row is large."""


def columns_size(served: InstalledResource, accepted: AcceptedMediaType) -> int:
    """Return the size of the columns that users define, for `attempt_output`; 0 if the response has none."""
    if accepted.kind != "Table" or not (printer := served.model.printer).evaluates_paths:
        return 0
    return _COLUMN_BYTES * len(printer.columns)


def _shaped(call: Call, served: InstalledResource, obj: JsonObject, accepted: AcceptedMediaType) -> JsonObject:
    """Read a stored object, and transform it as negotiated."""
    return shape_object(call, served, served.model.from_storage(obj), accepted)


def shape_object(call: Call, served: InstalledResource, visible: JsonObject, accepted: AcceptedMediaType) -> JsonObject:
    """Transform one object of the served version as negotiated."""
    check_metadata_kind(accepted, served, is_list=False)
    if accepted.kind == "Table":
        meta = {"resourceVersion": (visible.get("metadata") or {}).get("resourceVersion", "")}
        return table(call, served, [visible], meta, version=accepted.version)
    if accepted.kind == "PartialObjectMetadata":
        return partial(visible, version=accepted.version)
    return visible


async def list_response(
    call: Call, served: InstalledResource, items: Sequence[JsonObject], meta: JsonObject, accepted: AcceptedMediaType
) -> HttpResponse:
    """Return the response with a list of stored objects."""
    as_table = accepted.kind == "Table"
    # These take 0.1 ms for an object; others are encoded as they are.
    is_slow = items and (served.custom or as_table or accepted.write is not None or accepted.media == YAML)
    size = len(items) * len(encode_json(items[0])) if is_slow else 0
    leaves_loop = size > LARGE_BYTES or bool(LARGE_OBJECTS.sizes and any(map(LARGE_OBJECTS.size, items[:_FIRST_ITEMS])))
    pretty, ordered = wants_pretty(call), in_order(served, accepted)
    # A Table has the ages of objects.
    form = None if as_table else ("LIST", served.model, accepted.media, accepted.kind, accepted.version, pretty)
    read: Callable[[JsonObject], JsonObject] = served.model.from_storage
    if accepted.write is not None:
        item, empty_list = _item_shape(served, accepted), shape_list(call, served, [], meta, accepted)
        response = await protobuf_list(
            call, empty_list, items, lambda obj: item(read(obj)), form=form, is_slow=leaves_loop
        )
        response.headers.append(("content-type", accepted.media))
        return response
    if as_table and not served.custom:
        # The order of rows is that of the served version, whose objects are views of the stored ones.
        items = await compute(size, lambda: served.model.printer.arranged(list(map(read, items))))
        read = _same
    shape = _row_shape(call, served, accepted.version) if as_table else _item_shape(served, accepted)
    columns = columns_size(served, accepted)
    empty = await compute(
        columns,
        lambda: encode(shape_list(call, served, [], meta, accepted), accepted, pretty=pretty, ordered=ordered),
    )
    if not items:
        return HttpResponse(200, [("content-type", accepted.media)], empty)
    list_text, write, escape = _text_forms(accepted, pretty=pretty, ordered=ordered)
    response = await list_body(
        list_text(empty, "rows" if as_table else "items"),
        items,
        Encode(
            write=lambda obj: write(shape(read(obj))),
            escape=escape,
            form=form,
            is_slow=leaves_loop or columns > LARGE_BYTES,
            evaluates=columns > 0,
        ),
    )
    response.headers.append(("content-type", accepted.media))
    return response


_FIRST_ITEMS: Final = 256
"""Items of which the first piece of a list has some, which the event loop encodes unless one is large."""


def _text_forms(
    accepted: AcceptedMediaType, *, pretty: bool, ordered: bool
) -> tuple[Callable[[bytes, str], ListText], Callable[[JsonObject], bytes], Callable[[bytes], bytes]]:
    """Return the form of a list, and the functions that write an item and complete the text of several."""
    if accepted.media == YAML:
        return ListText.of_yaml, lambda item: write_yaml([item]).encode(), _same
    write = (_SORTED if ordered else _PLAIN).encode
    if not pretty:
        return ListText.of_json, write, _escape_html
    return ListText.of_indented_json, lambda item: _indented(_escape_html(write(item))), _same


def _indented(raw: bytes) -> bytes:
    """Indent an item of a list. JSON has no line breaks inside strings."""
    return msgspec.json.format(raw, indent=2).replace(b"\n", b"\n    ")


def _same(value: T) -> T:
    return value


def shape_list(
    call: Call, served: InstalledResource, visible: Sequence[JsonObject], meta: JsonObject, accepted: AcceptedMediaType
) -> JsonObject:
    """Transform a list of objects of the served version as negotiated."""
    check_metadata_kind(accepted, served, is_list=True)
    if accepted.kind == "Table":
        return table(call, served, visible, meta, version=accepted.version)
    items = list(map(_item_shape(served, accepted), visible))
    if accepted.kind == "PartialObjectMetadataList":
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"{META_GROUP}/{accepted.version}",
            "metadata": meta,
            "items": items,
        }
    info = served.info
    if not served.model.typed:
        # Lists of custom resources always have `continue`.
        meta = {"continue": "", **meta}
    kind = info.list_kind or f"{info.kind}List"
    return {"kind": kind, "apiVersion": info.api_version, "metadata": meta, "items": items}


def _item_shape(served: InstalledResource, accepted: AcceptedMediaType) -> Callable[[JsonObject], JsonObject]:
    """Return the transformation of one item of a list, for responses other than a Table."""
    if accepted.kind == "PartialObjectMetadataList":
        return lambda obj: partial(obj, version=accepted.version)
    return _without_kind if served.model.typed else lambda obj: obj


def _without_kind(obj: JsonObject) -> JsonObject:
    return {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}


def partial(obj: JsonObject, *, version: str = "v1") -> JsonObject:
    """Return the PartialObjectMetadata of an object."""
    meta = obj.get("metadata") or {}
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{META_GROUP}/{version or 'v1'}",
        "metadata": {key: meta[key] for key in _ORDER if key in meta},
    }


_ORDER: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def table(
    call: Call,
    served: InstalledResource,
    objects: Sequence[JsonObject],
    meta: JsonObject,
    *,
    version: str = "v1",
    headless: bool = False,
) -> JsonObject:
    """Return the Table; `headless` omits the column definitions."""
    row = _row_shape(call, served, version)
    return {
        "kind": "Table",
        "apiVersion": f"{META_GROUP}/{version or 'v1'}",
        "metadata": meta,
        "columnDefinitions": None if headless else [c.wire() for c in served.model.printer.columns],
        "rows": list(map(row, served.model.printer.arranged(objects))),
    }


def _row_shape(call: Call, served: InstalledResource, version: str) -> Callable[[JsonObject], JsonObject]:
    """Return the transformation of one object to a row of a Table, at the current time."""
    printer = served.model.printer
    include = call.http.query.get("includeObject") or "Metadata"
    now = utc_now().timestamp()

    def row(obj: JsonObject) -> JsonObject:
        shaped: JsonObject = {"cells": printer.cells(obj, now)}
        if conditions := printer.conditions(obj):
            shaped["conditions"] = list(conditions)
        shaped["object"] = obj
        if include != "Object":
            shaped["object"] = None if include == "None" else partial(obj, version=version)
        return shaped

    return row


def negotiated_error(call: Call, error: ApiError, status: JsonObject | None = None) -> HttpResponse:
    """Return an error in the negotiated encoding; as JSON if the client requests a transformation.

    If no clause is supported, it is indented JSON.
    """
    accepted, pretty = PLAIN, wants_pretty(call)
    try:
        accepted = _preferred(call, NOTHING if call.protobuf is None else WHOLE)
    except NotAcceptableError:
        pretty = True
    response = error_response(error)
    response.headers[0] = ("content-type", accepted.media)
    response.body = encode(status or status_of(error), accepted, pretty=pretty)
    return response


PLAIN = AcceptedMediaType(JSON)
"""JSON without a transformation."""
