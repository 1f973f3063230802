"""What is known of a predicate without calling it: the forms of events that it can pass and drop. Pure.

A form of an event is its type and what an update changed. A set of forms is an integer with a bit for each. So the sets
of ``&``, ``|`` and ``~`` are exact for the predicates of opsdk. A function of the user may pass and drop every form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Final, NamedTuple

from opsdk.apimachinery.gvk import GroupKind
from opsdk.event.event import EventType


class EventForm(NamedTuple):
    """A form of an event.

    Attributes:
        type: of the event.
        own: it is exactly one write of this process.
        version: an update changed the object. If not, it is a resync.
        generation: an update changed the generation; None for a kind without one.
        labels: an update changed the labels.
        annotations: an update changed the annotations.
    """

    type: EventType
    own: bool = False
    version: bool = False
    generation: bool | None = False
    labels: bool = False
    annotations: bool = False


def _forms() -> Iterator[EventForm]:
    for kind, own in product((EventType.CREATE, EventType.DELETE), (False, True)):
        yield EventForm(kind, own)
    yield EventForm(EventType.GENERIC)
    yield RESYNC
    for generation, *changes in product((False, True, None), (False, True), (False, True), (False, True)):
        yield EventForm(EventType.UPDATE, changes[0], True, generation, *changes[1:])


RESYNC: Final = EventForm(EventType.UPDATE)
FORMS: Final = tuple(_forms())


def forms(condition: Callable[[EventForm], bool]) -> int:
    """Return the set of the forms for which `condition` is True."""
    return sum(1 << bit for bit, form in enumerate(FORMS) if condition(form))


_ALL: Final = forms(lambda _: True)
OF_TYPE: Final = {kind: forms(lambda form, kind=kind: form.type is kind) for kind in EventType}  # type: ignore[misc]
"""The forms of each type of event."""
_RESYNC: Final = forms(RESYNC.__eq__)
_WITH_GENERATION: Final = forms(lambda form: form.generation is not None)
_WITHOUT_GENERATION: Final = forms(lambda form: form.generation is None or not form.version)


class Reach(NamedTuple):
    """The forms of events that a predicate can pass, and those that it can drop."""

    passes: int = _ALL
    drops: int = _ALL

    @classmethod
    def of(cls, condition: Callable[[EventForm], bool]) -> Reach:
        """Return the reach of a predicate that passes exactly the forms for which `condition` is True."""
        passed = forms(condition)
        return cls(passed, _ALL & ~passed)

    def __and__(self, other: Reach) -> Reach:
        return Reach(self.passes & other.passes, self.drops | other.drops)

    def __or__(self, other: Reach) -> Reach:
        return Reach(self.passes | other.passes, self.drops & other.drops)

    def __invert__(self) -> Reach:
        return Reach(self.drops, self.passes)

    def within(self, limit: int) -> Reach:
        """Return the reach for the forms of `limit`; no others pass."""
        return Reach(self.passes & limit, self.drops & limit)

    @property
    def is_nothing(self) -> bool:
        """Whether no event can pass."""
        return not self.passes

    def is_nothing_of(self, kind: GroupKind) -> bool:
        """Whether only resyncs of a kind can pass because it has no generation, or no event at all."""
        if kind not in WITHOUT_GENERATION:
            return self.is_nothing
        return not self.passes & _WITHOUT_GENERATION & ~_RESYNC and (
            self.is_nothing or bool(self.passes & _WITH_GENERATION & ~_RESYNC)
        )


ANYTHING: Final = Reach()
"""Of a function that is not known."""
EVERYTHING: Final = Reach.of(lambda _: True)
NOTHING: Final = ~EVERYTHING

WITHOUT_GENERATION: Final = frozenset(
    GroupKind(group, kind)
    for group, kinds in {
        "": (
            "ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim ResourceQuota "
            "Secret Service ServiceAccount"
        ),
        "coordination.k8s.io": "Lease",
        "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding Role RoleBinding",
        "storage.k8s.io": "CSINode CSIStorageCapacity StorageClass VolumeAttachment",
    }.items()
    for kind in kinds.split()
)
"""Built-in kinds of which kube-apiserver (v1.36) counts no generation. Other kinds may have one."""
