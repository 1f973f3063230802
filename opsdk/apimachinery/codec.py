"""Bytes to objects and back.

Answers and cached entries are decoded straight from bytes into the wanted form. An object that cannot be decoded
raises `DecodeError` with its kind, key and path; inside a list it is set aside and the rest is returned.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import ListMeta, ObjectMeta
from opsdk.apimachinery.model import decode_hook, encode_hook
from opsdk.apimachinery.object import (
    AnyObject,
    ObjectList,
    PartialObjectMetadata,
    Undecodable,
    Unstructured,
    convert,
    key_of,
    retain_unknown_fields,
    to_tree,
)
from opsdk.errors import DecodeError, EncodeError
from opsdk.structured_merge.value import JsonObject

T = TypeVar("T", bound=AnyObject)


class _Head(msgspec.Struct, rename="camel"):
    """What names an object, read leniently: enough to say which one could not be decoded."""

    api_version: Any = ""
    kind: Any = ""
    metadata: JsonObject | None = None


class _RawList(msgspec.Struct, rename="camel"):
    """A list answer whose items are still bytes."""

    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET
    metadata: ListMeta | None = None
    kind: str = ""
    api_version: str = ""


def encode(obj: AnyObject) -> bytes:
    """`obj` as JSON; `EncodeError` if a value in it has no wire form."""
    return encode_tree(to_tree(obj), obj)


def encode_tree(tree: Any, obj: AnyObject) -> bytes:
    """A tree made of `obj` as JSON; `EncodeError` names the object."""
    try:
        return msgspec.json.encode(tree, enc_hook=encode_hook)
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError) as error:
        raise EncodeError(f"{obj.kind} {key_of(obj)} cannot be encoded: {error}") from error


def decode(data: bytes, kind: Kind[T]) -> T:
    """One object of `kind` from JSON; `DecodeError` if these bytes are none."""
    try:
        obj = _decode(data, kind.representation)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        head = _head(data)
        if head.kind and kind.representation is not PartialObjectMetadata:
            # Another kind seldom fits; that it is another kind is the better news.
            _check_kind(str(head.api_version), str(head.kind), kind.gvk, data)
        raise DecodeError(f"{kind.gvk} {_name(data)}: {error}") from error
    return _named(obj, kind.gvk, data)


def _decode(data: bytes, form: type[T]) -> T:
    if issubclass(form, Unstructured):
        return form.from_tree(msgspec.json.decode(data, type=JsonObject))
    try:
        obj = msgspec.json.decode(data, type=form, dec_hook=decode_hook)
    except msgspec.ValidationError:
        # Null where the type has a list or a map: rare, so it costs a second pass only then.
        obj = convert(msgspec.json.decode(data, type=JsonObject), form)
    retain_unknown_fields(obj, data)
    return obj


def _named(made: T, gvk: GroupVersionKind, data: bytes) -> T:
    """Check or set what the object says it is."""
    if isinstance(made, PartialObjectMetadata) or not made.kind:
        # Metadata answers are called PartialObjectMetadata, and list items nothing at all.
        made.api_version, made.kind = gvk.api_version, gvk.kind
    else:
        _check_kind(made.api_version, made.kind, gvk, data)
    return made


def _check_kind(api_version: str, kind: str, gvk: GroupVersionKind, data: bytes) -> None:
    if (api_version, kind) != (gvk.api_version, gvk.kind):
        raise DecodeError(f"expected {gvk}, got {api_version}, Kind={kind}: {_name(data)}")


def decode_tree(tree: JsonObject, kind: Kind[T]) -> T:
    """One object of `kind` from a JSON tree, which is taken over; `DecodeError` if it is none."""
    try:
        obj = convert(tree, kind.representation)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DecodeError(f"{kind.gvk} {_name(msgspec.json.encode(tree))}: {error}") from error
    retain_unknown_fields(obj, tree)
    return _named(obj, kind.gvk, b"")


def decode_list(data: bytes, kind: Kind[T]) -> ObjectList[T]:
    """A list of `kind` from JSON. Undecodable items are set aside; `DecodeError` only if this is no list."""
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
    """The items of a list answer, each as its own bytes, and the list's metadata."""
    try:
        raw = msgspec.json.decode(data, type=_RawList)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DecodeError(f"this is no list: {error}; it starts with {data[:80]!r}") from error
    if isinstance(raw.items, msgspec.UnsetType) and not raw.kind.endswith("List"):
        raise DecodeError(f"this is no list but a {raw.kind or 'nameless thing'}; it starts with {data[:80]!r}")
    return [bytes(item) for item in raw.items or ()], raw.metadata or ListMeta()


def undecodable(data: bytes, gvk: GroupVersionKind, error: DecodeError) -> Undecodable:
    """The record of an item that was set aside."""
    return Undecodable(key=peek_key(data), gvk=gvk, error=str(error))


def decode_meta(data: bytes) -> ObjectMeta:
    """Only the metadata of an object; `DecodeError` if it has none that is readable."""
    try:
        return _decode(data, PartialObjectMetadata).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise DecodeError(f"unreadable metadata of {_name(data)}: {error}") from error


def peek_key(data: bytes) -> ObjectKey:
    """Namespace and name of an object in JSON as far as they are readable; never fails."""
    metadata = _head(data).metadata or {}
    return ObjectKey(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def _head(data: bytes) -> _Head:
    try:
        return msgspec.json.decode(data, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Head()


def _name(data: bytes) -> str:
    key = peek_key(data)
    return str(key) if key.name else f"(starts with {data[:40]!r})"
