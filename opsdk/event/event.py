"""What happened, as predicates and handlers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Generic, TypeVar

from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import AnyObject
from opsdk.cache.store import Delta, DeltaType, OwnerRef, StoreEntry

T = TypeVar("T", bound=AnyObject)


class EventType(Enum):
    """What kind of thing happened."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    GENERIC = "generic"
    """Something outside the cluster, told through a channel."""


class ObjectView(Generic[T]):
    """An object inside an event. What is asked often costs nothing; `object` is decoded when first asked for."""

    def __init__(self, entry: StoreEntry, kind: Kind[T]) -> None:
        self.entry = entry
        self.kind = kind

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.entry.key

    @property
    def uid(self) -> str:
        """The server's identity of the object."""
        return self.entry.uid

    @property
    def resource_version(self) -> str:
        """Its revision."""
        return self.entry.resource_version

    @property
    def generation(self) -> int:
        """Counts changes of the spec; 0 for kinds that have none."""
        return self.entry.generation

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels; not to be changed."""
        return self.entry.labels

    @property
    def owners(self) -> tuple[OwnerRef, ...]:
        """Its owner references."""
        return self.entry.owners

    @property
    def finalizers(self) -> tuple[str, ...]:
        """Its finalizers."""
        return self.entry.finalizers

    @property
    def deleting(self) -> bool:
        """Whether its deletion was asked for."""
        return self.entry.deleting

    @cached_property
    def metadata(self) -> ObjectMeta:
        """All metadata, annotations included."""
        return self.entry.metadata()

    @cached_property
    def object(self) -> T:
        """The object; `DecodeError` if it does not fit its type."""
        return decode(self.entry.data, self.kind)

    def __repr__(self) -> str:
        return f"<View of {self.kind.name} {self.key} at {self.resource_version}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Generic[T]):
    """Something that happened to an object.

    Attributes:
        old: before; None for CREATE and GENERIC.
        new: after; None for DELETE.
        initial: the object was there when watching began.
        final_state_unknown: deleted unseen; `old` is the last known state.
        resync: nothing changed.
    """

    type: EventType
    old: ObjectView[T] | None = None
    new: ObjectView[T] | None = None
    initial: bool = False
    final_state_unknown: bool = False
    resync: bool = False

    @property
    def view(self) -> ObjectView[T]:
        """The object after, or for DELETE before."""
        view = self.new or self.old
        assert view is not None
        return view


_KINDS = {DeltaType.ADDED: EventType.CREATE, DeltaType.UPDATED: EventType.UPDATE, DeltaType.DELETED: EventType.DELETE}


def event_of(delta: Delta, kind: Kind[T]) -> Event[T]:
    """The event for a difference in a store."""
    return Event(
        type=_KINDS[delta.change],
        old=ObjectView(delta.old, kind) if delta.old is not None else None,
        new=ObjectView(delta.new, kind) if delta.new is not None else None,
        initial=delta.initial,
        final_state_unknown=delta.final_state_unknown,
        resync=delta.resync,
    )


AnyEvent = Event[Any]
