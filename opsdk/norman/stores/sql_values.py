"""Computes the values by which a database filters and sorts objects. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from opsdk.norman.collections.field_path import Cell, cell_at, number_key, texts
from opsdk.norman.model import Schema
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject

NULL_KEY: Final = b"\x00"
"""The order key of a field without a value."""

MAX_ELEMENTS: Final = 1000
"""The most elements of a list in a field with filters: a body of 2 MiB has half a million."""

_MAX_KEY_BYTES: Final = 512


class _FieldValues(msgspec.Struct, frozen=True):
    """The stored values of one field of one object.

    Attributes:
        key: orders objects by the field.
        digests: of the strings that EQ and IN compare with.
    """

    key: bytes
    digests: frozenset[bytes]


def indexed_fields(schema: Schema) -> frozenset[str]:
    """Return the fields that a list is often filtered or sorted by: filters, references and the namespace.

    >>> from opsdk.norman.schema_parts import ApiVersion, Field, Filter
    >>> fields = {"name": Field(type="string"), "ownerId": Field(type="reference[owner]")}
    >>> schema = Schema(id="book", version=ApiVersion(), resource_fields=fields, collection_filters={"name": Filter()})
    >>> sorted(indexed_fields(schema))
    ['name', 'namespaceId', 'ownerId']
    """
    references = {
        name for name, field in schema.resource_fields.items() if TypeExpression.parse(field.type).is_reference
    }
    return frozenset({*schema.collection_filters, *references, "namespaceId"} - {"id"})


def field_values(data: JsonObject, name: str) -> _FieldValues:
    """Return the values of a field; a dot separates the names of nested fields.

    >>> values = field_values({"tags": ["a", "b"]}, "tags")
    >>> values.digests == {digest_of("a"), digest_of("b")}
    True
    """
    cell = _cell(data, name)
    return _FieldValues(order_key(cell), frozenset(map(digest_of, texts(cell))))


def count_elements(data: JsonObject, name: str) -> int:
    """Return the number of values of a field; each is a row."""
    cell = _cell(data, name)
    return len(cell) if isinstance(cell, tuple) else 1


def _cell(data: JsonObject, name: str) -> Cell:
    return cell_at(data, tuple(name.split(".")))


def order_key(cell: Cell) -> bytes:
    """Return bytes that are ordered as `opsdk.norman.collections.field_path.order_text` orders cells.

    Integers of more than 64 bits may be equal to others, and so are strings that differ after 511 bytes.

    >>> sorted([order_key("a"), order_key(10), order_key(9.5), order_key(None)])[0] == order_key(None)
    True
    """
    if cell is None:
        return NULL_KEY
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return b"\x01" + number_key(cell)
    return (b"\x02" + encode_text("|".join(texts(cell))))[:_MAX_KEY_BYTES]


def digest_of(text: str) -> bytes:
    """Return 16 bytes in place of a string of any length: indices limit the length of their entries."""
    return hashlib.blake2b(encode_text(text), digest_size=16).digest()


def encode_text(text: str) -> bytes:
    """Return UTF-8; its bytes are ordered as the code points. Lone surrogates of a URL are accepted."""
    return text.encode("utf-8", "surrogatepass")
