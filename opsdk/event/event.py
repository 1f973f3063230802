"""Events, as predicates and handlers receive them.

Upstream: sigs.k8s.io/controller-runtime/pkg/event/event.go
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec

from opsdk.apimachinery.codec import decode, encode_tree
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind, kind_of_object
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import AnyObject, to_dict
from opsdk.base.cause import ReconcileCause
from opsdk.base.traceparent import TRACEPARENT_ANNOTATION, is_traceparent
from opsdk.cache.entry import OwnerRef, StoreEntry, make_entry
from opsdk.cache.store import Delta, DeltaType
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JSON_ERRORS

T = TypeVar("T", bound=AnyObject)


class EventType(Enum):
    """Type of an event."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    GENERIC = "generic"
    """An event from outside the cluster, through a channel."""


# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_CREATE, _UPDATE, _DELETE = EventType.CREATE, EventType.UPDATE, EventType.DELETE
_ADDED, _UPDATED = DeltaType.ADDED, DeltaType.UPDATED


class ObjectView(msgspec.Struct, Generic[T], frozen=True, eq=False, dict=True):
    """An object inside an event. Common metadata is available at once; `object` is decoded on first access.

    Attributes:
        entry: the object in the store.
        kind: its kind.
    """

    entry: StoreEntry
    kind: Kind[T]

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.entry.key

    @property
    def uid(self) -> str:
        """The object's uid."""
        return self.entry.uid

    @property
    def resource_version(self) -> str:
        """The object's resource version."""
        return self.entry.resource_version

    @property
    def generation(self) -> int:
        """The generation: counts changes of the spec; 0 for kinds without it."""
        return self.entry.generation

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels. Do not change them."""
        return self.entry.labels

    @property
    def owners(self) -> tuple[OwnerRef, ...]:
        """The owner references."""
        return self.entry.owners

    @property
    def finalizers(self) -> tuple[str, ...]:
        """The finalizers."""
        return self.entry.finalizers

    @property
    def deleting(self) -> bool:
        """Whether the object has a deletion timestamp."""
        return self.entry.deleting

    @cached_property
    def metadata(self) -> ObjectMeta:
        """All metadata, including annotations."""
        return self.entry.metadata()

    @cached_property
    def object(self) -> T:
        """The decoded object. Raises `DecodeError` if it does not fit the class."""
        return decode(self.entry.data, self.kind)

    def __repr__(self) -> str:
        return f"<ObjectView of {self.kind.name} {self.key} at {self.resource_version}>"


class Event(msgspec.Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """A change of an object.

    Attributes:
        type: create, update, delete or generic.
        old: the object before; None for CREATE and GENERIC.
        new: the object after; None for DELETE.
        initial: the object is part of the informer's initial list.
        final_state_unknown: the deletion was not watched; `old` may be outdated.
        resync: nothing changed; the informer sends the object again.
        own: the change is exactly one write of this process; see `opsdk.event.predicates.ignore_own_writes`.
    """

    type: EventType
    old: ObjectView[T] | None = None
    new: ObjectView[T] | None = None
    initial: bool = False
    final_state_unknown: bool = False
    resync: bool = False
    own: bool = False

    @property
    def view(self) -> ObjectView[T]:
        """The object after the change, or for DELETE before it."""
        view = self.new or self.old
        assert view is not None
        return view


def event_of(delta: Delta, kind: Kind[T]) -> Event[T]:
    """Return the event for a delta of a store."""
    change = delta.change  # not a dict: an enum's hash is two calls
    event_type = _UPDATE if change is _UPDATED else _CREATE if change is _ADDED else _DELETE
    return Event(
        type=event_type,
        old=ObjectView(delta.old, kind) if delta.old is not None else None,
        new=ObjectView(delta.new, kind) if delta.new is not None else None,
        initial=delta.initial,
        final_state_unknown=delta.final_state_unknown,
        resync=delta.resync,
        own=delta.own,
    )


def cause_of(event: Event[Any], *, traced: bool = False) -> ReconcileCause:
    """Return the cause of a request that an event queues; with `traced`, it names the trace context of the write."""
    view = event.view
    return ReconcileCause(
        view.kind.name,
        "resync" if event.resync else event.type._value_,  # `value` is a property: two calls
        str(view.entry.key),
        view.entry.resource_version,
        own=event.own,
        initial=event.initial,
        traceparents=_traceparents_of(event) if traced else (),
    )


class _TraceAnnotations(msgspec.Struct):
    traceparent: object = msgspec.field(default=None, name=TRACEPARENT_ANNOTATION)


class _TracedMeta(msgspec.Struct):
    annotations: _TraceAnnotations | None = None


class _TracedObject(msgspec.Struct):
    metadata: _TracedMeta | None = None


_TRACED_DECODER = msgspec.json.Decoder(_TracedObject)
_TRACEPARENT_KEY = TRACEPARENT_ANNOTATION.encode()


def _traceparents_of(event: Event[Any]) -> tuple[str, ...]:
    """Return the trace context of the write that an event shows; empty if the write did not carry one.

    A write that carries none leaves the annotation of an earlier one, so only a changed value counts.
    """
    if event.new is None:
        return ()
    traceparent = _traceparent_in(event.new.entry.data)
    if not traceparent or (event.old is not None and _traceparent_in(event.old.entry.data) == traceparent):
        return ()
    return (traceparent,)


def _traceparent_in(data: bytes) -> str:
    """Return the trace context in an object's JSON; empty if it has none, or not a valid one."""
    if _TRACEPARENT_KEY not in data:  # one scan: most objects have none
        return ""
    try:
        metadata = _TRACED_DECODER.decode(data).metadata
    except JSON_ERRORS:
        return ""
    value = metadata.annotations.traceparent if metadata is not None and metadata.annotations is not None else None
    return value if isinstance(value, str) and is_traceparent(value) else ""


def generic_event(obj: T) -> Event[T]:
    """Return the event for an object from outside the cluster. The event holds a copy.

    Raises `UsageError` if the object has no name.
    """
    if not obj.metadata.name:
        raise UsageError(f"a generic event needs an object with a name, not {obj!r}")
    tree = to_dict(obj)
    tree["metadata"].setdefault("resourceVersion", "0")  # an object that was not read has none
    entry, _ = make_entry(encode_tree(tree, obj))
    return Event(type=EventType.GENERIC, new=ObjectView(entry, kind_of_object(obj)))


AnyEvent = Event[Any]
