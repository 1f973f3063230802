"""The texts of records that may have copies of secret values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from opsdk.base.cause import ReconcileCause
from opsdk.recording.known_values import Present, replaced, replaced_in_msgpack
from opsdk.recording.records import (
    Answered,
    CachedCollection,
    CachedObjects,
    CallBegan,
    Called,
    EventSeriesRecord,
    ExchangeBegan,
    Failed,
    HeldRequest,
    QueuedRequest,
    Received,
    Record,
    RecordedCause,
    RepeatedRequest,
    Responded,
    Returned,
)

__all__ = ["texts_of", "with_replaced"]


class _Form(NamedTuple):
    """The type of a field that may have copies of values.

    Attributes:
        text: returns what of the field is searched.
        replaced: returns the field with what stands for the values.
    """

    text: Callable[[Any], bytes]
    replaced: Callable[[Any, Present], Any]


def _in_text(text: str, present: Present) -> str:
    return replaced(text.encode(), present).decode()


def _json_of(kind: Any) -> _Form:
    def in_json(value: Any, present: Present) -> Any:
        return msgspec.json.decode(replaced(msgspec.json.encode(value), present), type=kind)

    return _Form(msgspec.json.encode, in_json)


_BYTES: Final = _Form(bytes, replaced)
_MSGPACK: Final = _Form(bytes, replaced_in_msgpack)
_TEXT: Final = _Form(str.encode, _in_text)
_HEADERS: Final = _Form(
    lambda headers: "\n".join(headers.values()).encode(),
    lambda headers, present: {name: _in_text(value, present) for name, value in headers.items()},
)
_ITEMS: Final = _Form(b"".join, lambda items, present: tuple(replaced(item, present) for item in items))

_FIELDS: Final[Mapping[type, tuple[str, _Form]]] = {
    Received: ("data", _BYTES),
    ExchangeBegan: ("body", _BYTES),
    Called: ("body", _BYTES),
    Answered: ("body", _BYTES),
    Responded: ("headers", _HEADERS),
    CallBegan: ("arguments", _MSGPACK),
    Returned: ("value", _MSGPACK),
    Failed: ("message", _TEXT),
    CachedObjects: ("items", _ITEMS),
    CachedCollection: ("history", _MSGPACK),
    EventSeriesRecord: ("event", _BYTES),
    RepeatedRequest: ("passes", _MSGPACK),
    QueuedRequest: ("causes", _json_of(tuple[RecordedCause, ...])),
    HeldRequest: ("causes", _json_of(tuple[ReconcileCause, ...])),
}
"""The field of each record that may have copies. Records of other types have none."""


def texts_of(record: Record) -> bytes:
    """Return what of a record may have copies of values."""
    if (field := _FIELDS.get(type(record))) is None:
        return b""
    name, form = field
    return form.text(getattr(record, name))


def with_replaced(record: Record, present: Present) -> Record:
    """Return a record with what stands for the values in its texts."""
    if (field := _FIELDS.get(type(record))) is None:
        return record
    name, form = field
    return replace(record, **{name: form.replaced(getattr(record, name), present)})
