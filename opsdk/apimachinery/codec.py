"""Decodes JSON bytes into objects and encodes objects into JSON bytes.

An object that does not decode raises `DecodeError` with its kind, key and path. An item of a list that does not decode
is set aside in `ObjectList.undecodable`; the other items are returned.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import ListMeta
from opsdk.apimachinery.model import decode_hook, encode_hook
from opsdk.apimachinery.object import (
    ORIGIN,
    AnyObject,
    ObjectList,
    PartialObjectMetadata,
    Undecodable,
    Unstructured,
    convert,
    key_of,
    retain_unknown_fields,
    shared_tree,
)
from opsdk.errors import DecodeError, EncodeError
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject

T = TypeVar("T", bound=AnyObject)


class _Head(msgspec.Struct, rename="camel"):
    """The identity of an object, decoded leniently for error messages."""

    api_version: Any = ""
    kind: Any = ""
    metadata: JsonObject | None = None


class _RawList(msgspec.Struct, rename="camel"):
    """A list response whose items are still bytes."""

    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET
    metadata: ListMeta | None = None
    kind: str = ""
    api_version: str = ""


def encode(obj: AnyObject) -> bytes:
    """Return `obj` as JSON. Raises `EncodeError` if a value has no JSON form."""
    return encode_tree(shared_tree(obj), obj)


def encode_tree(tree: Any, obj: AnyObject) -> bytes:
    """Return a JSON tree as bytes. `obj` names the object in the `EncodeError`."""
    try:
        return msgspec.json.encode(tree, enc_hook=encode_hook)
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError) as error:
        raise EncodeError(f"{obj.kind} {key_of(obj)} cannot be encoded: {error}") from error


def decode(data: bytes, kind: Kind[T], *, bounds: bool = False) -> T:
    """Decode one object of `kind`.

    Args:
        data: the object as JSON.
        kind: its kind and class.
        bounds: enforce the bounds of the class (`msgspec.Meta`), as for new objects. Stored objects may violate bounds
            that were added later.

    Raises:
        DecodeError: the kind differs, or the object does not fit the class.
    """
    try:
        obj = _decode(data, kind.representation, bounds=bounds)
    except JSON_ERRORS as error:
        head = _head(data)
        if head.kind and kind.representation is not PartialObjectMetadata:
            # If the kind differs, report that instead of a field error.
            _check_kind(str(head.api_version), str(head.kind), kind, data)
        raise DecodeError(f"{kind.gvk} {_name(data)}: {_misfit(error, kind)}") from error
    if obj.kind == kind.name and obj.api_version == kind.api_version:
        return obj
    return _with_kind(obj, kind, data)


def _decode(data: bytes, form: type[T], *, bounds: bool = False) -> T:
    if issubclass(form, Unstructured):
        unstructured = form.from_tree(msgspec.json.decode(data, type=JsonObject))
        retain_unknown_fields(unstructured, data)
        return unstructured
    try:
        obj = msgspec.json.decode(data, type=form, dec_hook=decode_hook)
    except msgspec.ValidationError:
        # A null in place of a list or a map, or a value out of bounds. Rare, so the first pass does not check for it.
        obj = convert(msgspec.json.decode(data, type=JsonObject), form, bounds=bounds)
    obj.__dict__[ORIGIN] = data  # as `retain_unknown_fields`, for each object of each read
    return obj


def _with_kind(made: T, kind: Kind[T], data: bytes) -> T:
    """Check the kind of `obj`, or set it where the response does not carry it."""
    if made.kind == kind.name and made.api_version == kind.api_version:
        return made
    if isinstance(made, PartialObjectMetadata) or not made.kind:
        # The server sends metadata as kind PartialObjectMetadata, and list items without a kind.
        made.api_version, made.kind = kind.api_version, kind.name
    else:
        _check_kind(made.api_version, made.kind, kind, data)
    return made


def _check_kind(api_version: str, name: str, kind: Kind[T], data: bytes) -> None:
    if (api_version, name) != (kind.api_version, kind.name):
        raise DecodeError(f"expected {kind.gvk}, got {api_version}, Kind={name}: {_name(data)}")


def _misfit(error: Exception, kind: Kind[T]) -> str:
    """Return which field does not fit the class, and what to do."""
    text, _, path = str(error).partition(" - at `$.")
    if not isinstance(error, msgspec.ValidationError):
        return text
    field = f"{path.rstrip('`')}: " if path else ""
    return f"{field}{text}: correct the object, or the fields of {kind.representation.__name__}"


def decode_tree(tree: JsonObject, kind: Kind[T]) -> T:
    """Decode one object of `kind` from a JSON tree, which the object may share. Raises `DecodeError`."""
    try:
        obj = convert(tree, kind.representation)
    except JSON_ERRORS as error:
        raise DecodeError(f"{kind.gvk} {_name(msgspec.json.encode(tree))}: {_misfit(error, kind)}") from error
    retain_unknown_fields(obj, tree)
    return _with_kind(obj, kind, b"")


def decode_list(data: bytes, kind: Kind[T]) -> ObjectList[T]:
    """Decode a list of `kind`. Raises `DecodeError` only if the bytes are not a list."""
    items, metadata = split_list(data)
    objects: list[T] = []
    bad: list[Undecodable] = []
    for item in items:
        try:
            objects.append(decode(item, kind))
        except DecodeError as error:
            bad.append(undecodable(item, kind.gvk, error))
    return ObjectList(objects, metadata, bad)


def split_list(data: bytes) -> tuple[list[bytes], ListMeta]:
    """Return the items of a list response, each as bytes, and the list's metadata. Raises `DecodeError`."""
    try:
        raw = msgspec.json.decode(data, type=_RawList)
    except JSON_ERRORS as error:
        raise DecodeError(f"expected a list: {error}; it starts with {data[:80]!r}") from error
    if isinstance(raw.items, msgspec.UnsetType) and not raw.kind.endswith("List"):
        raise DecodeError(f"expected a list, got kind {raw.kind or '(none)'}; it starts with {data[:80]!r}")
    return [bytes(item) for item in raw.items or ()], raw.metadata or ListMeta()


def undecodable(data: bytes, gvk: GroupVersionKind, error: DecodeError) -> Undecodable:
    """Return the record of an item that does not decode."""
    return Undecodable(key=peek_key(data), gvk=gvk, error=str(error))


def decode_partial(data: bytes) -> PartialObjectMetadata:
    """Decode only the kind, as it is sent, and the metadata of an object. Raises `DecodeError`."""
    try:
        return _decode(data, PartialObjectMetadata)
    except JSON_ERRORS as error:
        raise DecodeError(f"unreadable metadata of {_name(data)}: {error}") from error


def peek_key(data: bytes) -> ObjectKey:
    """Return namespace and name of a JSON object, empty where unreadable. Never raises."""
    metadata = _head(data).metadata or {}
    return ObjectKey(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def _head(data: bytes) -> _Head:
    try:
        return msgspec.json.decode(data, type=_Head)
    except JSON_ERRORS:
        return _Head()


def _name(data: bytes) -> str:
    key = peek_key(data)
    return str(key) if key.name else f"(starts with {data[:40]!r})"
