"""What stores return: lists with their markers, and changes.

Upstream: github.com/rancher/norman/types/server_types.go
Deviates: a store returns `ResourceList`, so that a store with its own paging need not return all objects;
a watch yields `ResourceEvent` instead of maps with the key ``.removed``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from enum import Enum

import msgspec

from opsdk.structured_merge.value import JsonObject

__all__ = ["ResourceEvent", "ResourceEventType", "ResourceList"]


class PageMarkers(msgspec.Struct, frozen=True, kw_only=True):
    """Markers of the adjacent pages: the id of their first object, ``""`` for the start, None without such a page.

    Attributes:
        previous: of the page before.
        next: of the page after.
        last: of the last page.
        total: the number of objects on all pages.
    """

    previous: str | None = None
    next: str | None = None
    last: str | None = None
    total: int = 0


class ResourceList(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a list.

    Attributes:
        items: external objects.
        markers: set by a store that filters, sorts and pages itself; with None, the caller does all three.
    """

    items: Sequence[JsonObject]
    markers: PageMarkers | None = None


class ResourceEventType(Enum):
    """The type of an event."""

    CHANGE = "resource.change"
    REMOVE = "resource.remove"


class ResourceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A change of an object in a store.

    Attributes:
        type: the type of the change.
        data: the external object; after a removal, its last state.
        revision: the value of `since` that resumes after it; empty if the store cannot resume.
    """

    type: ResourceEventType
    data: JsonObject
    revision: str = ""


ResourceEvents = AsyncGenerator[ResourceEvent, None]
"""The changes of a store, as they happen. Close it to end the watch."""
