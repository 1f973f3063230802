"""Watch events as values."""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

import msgspec

from opsdk.apimachinery.object import AnyObject

T = TypeVar("T", bound=AnyObject)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events of a streaming list."""


class WatchEventType(Enum):
    """What happened."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    """Nothing, but the revision moved on to that of `object`, which is a `PartialObjectMetadata` here."""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One change; for DELETED, `object` is the last state."""

    type: WatchEventType
    object: T
