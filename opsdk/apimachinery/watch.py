"""Watch events.

Upstream: k8s.io/apimachinery/pkg/watch/watch.go (v1.36)
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

import msgspec

from opsdk.apimachinery.object import AnyObject

T = TypeVar("T", bound=AnyObject)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events of a streaming list."""


class WatchEventType(Enum):
    """Type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    """Only the resource version has advanced; `object` is a `PartialObjectMetadata`."""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One change of an object. For DELETED, `object` is the last state."""

    type: WatchEventType
    object: T
