"""The texts of records that may have copies of secret values. Pure."""

from __future__ import annotations

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
    CheckpointPart,
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


def texts_of(record: Record) -> bytes:
    """Return what of a record may have copies of values."""
    match record:
        case Received():
            return record.data
        case ExchangeBegan() | Called() | Answered():
            return record.body
        case Responded():
            return "\n".join(record.headers.values()).encode()
        case CallBegan():
            return record.arguments
        case Returned():
            return record.value
        case Failed():
            return record.message.encode()
    return _texts_of_part(record) if isinstance(record, CheckpointPart) else b""


def _texts_of_part(record: CheckpointPart) -> bytes:
    match record:
        case CachedObjects():
            return b"".join(record.items)
        case CachedCollection():
            return record.history
        case EventSeriesRecord():
            return record.event
        case RepeatedRequest():
            return record.passes
        case QueuedRequest() | HeldRequest():
            return msgspec.json.encode(record.causes)
    return b""


def with_replaced(record: Record, present: Present) -> Record:
    """Return a record with what stands for the values in its texts."""
    match record:
        case Received():
            return replace(record, data=replaced(record.data, present))
        case ExchangeBegan() | Called() | Answered():
            return replace(record, body=replaced(record.body, present))
        case Responded():
            headers = {name: replaced(value.encode(), present).decode() for name, value in record.headers.items()}
            return replace(record, headers=headers)
        case CallBegan():
            return replace(record, arguments=replaced_in_msgpack(record.arguments, present))
        case Returned():
            return replace(record, value=replaced_in_msgpack(record.value, present))
        case Failed():
            return replace(record, message=replaced(record.message.encode(), present).decode())
    return _part_with_replaced(record, present) if isinstance(record, CheckpointPart) else record


def _part_with_replaced(record: CheckpointPart, present: Present) -> CheckpointPart:
    match record:
        case CachedObjects():
            return replace(record, items=tuple(replaced(item, present) for item in record.items))
        case CachedCollection():
            return replace(record, history=replaced_in_msgpack(record.history, present))
        case EventSeriesRecord():
            return replace(record, event=replaced(record.event, present))
        case RepeatedRequest():
            return replace(record, passes=replaced_in_msgpack(record.passes, present))
        case QueuedRequest():
            queued = replaced(msgspec.json.encode(record.causes), present)
            return replace(record, causes=msgspec.json.decode(queued, type=tuple[RecordedCause, ...]))
        case HeldRequest():
            held = replaced(msgspec.json.encode(record.causes), present)
            return replace(record, causes=msgspec.json.decode(held, type=tuple[ReconcileCause, ...]))
    return record
