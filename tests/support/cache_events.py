"""Stored objects and the events about them, as an informer gives them to an event dispatcher."""

from __future__ import annotations

from typing import Any

import msgspec
from cache_world import THING

from opsdk.cache.entry import StoreEntry, make_entry
from opsdk.event.event import AnyEvent, Event, EventType, ObjectView


def entry(name: str = "a", version: int = 1, *, namespace: str = "ns", **meta: Any) -> StoreEntry:
    """A stored Thing; keywords are further metadata."""
    tree = {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            **meta,
        },
    }
    return make_entry(msgspec.json.encode(tree))[0]


def view(name: str = "a", version: int = 1, **meta: Any) -> ObjectView[Any]:
    """A Thing as it stands in an event."""
    return ObjectView(entry(name, version, **meta), THING)


def created(new: ObjectView[Any], *, initial: bool = False) -> AnyEvent:
    """The event of a created object."""
    """The event of a created object."""
    return Event(type=EventType.CREATE, new=new, initial=initial)


def updated(old: ObjectView[Any], new: ObjectView[Any]) -> AnyEvent:
    """The event of a changed object."""
    """The event of a changed object."""
    return Event(type=EventType.UPDATE, old=old, new=new)


def deleted(old: ObjectView[Any]) -> AnyEvent:
    """The event of a deleted object."""
    """The event of a deleted object."""
    return Event(type=EventType.DELETE, old=old)
