"""Predicates: decide which events are handled. They combine with ``&``, ``|`` and ``~``.

Upstream: sigs.k8s.io/controller-runtime/pkg/predicate/predicate.go
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any

from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.object import AnyObject
from opsdk.apimachinery.selectors import LabelRequirements, as_selector
from opsdk.event.event import AnyEvent, EventType, ObjectView
from opsdk.event.reach import ANYTHING, EVERYTHING, NOTHING, OF_TYPE, EventForm, Reach

__all__ = [
    "Predicate",
    "all_of",
    "annotations_changed",
    "any_of",
    "begins_deletion",
    "generation_changed",
    "ignore_own_writes",
    "labels_changed",
    "matches_labels",
    "of_object",
    "on",
    "resource_version_changed",
]

PredicateFunc = Callable[[AnyEvent], bool]


class Predicate:
    """A function from an event to a bool, with a name. An event passes if it returns True.

    >>> p = generation_changed() | labels_changed()

    Args:
        test: the function.
        name: for messages; default: that of the function.
    """

    def __init__(self, test: PredicateFunc, name: str = "") -> None:
        self.test = test
        self.reach = ANYTHING
        self.name = name or getattr(test, "__name__", "predicate")

    def __call__(self, event: AnyEvent) -> bool:
        """Whether the event passes."""
        return self.test(event)

    @property
    def passes_nothing(self) -> bool:
        """Whether it is known that no event ever passes. A controller refuses such a predicate."""
        return self.reach.is_nothing

    def __and__(self, other: PredicateFunc) -> Predicate:
        return all_of(self, other)

    def __or__(self, other: PredicateFunc) -> Predicate:
        return any_of(self, other)

    def __invert__(self) -> Predicate:
        return _known(Predicate(lambda event: not self.test(event), f"not {self.name}"), ~self.reach)

    def __repr__(self) -> str:
        return f"<Predicate {self.name}>"


def all_of(*tests: PredicateFunc) -> Predicate:
    """Return a predicate that passes if all `tests` pass. Without tests, every event passes."""
    functions = tuple(map(test_of, tests))

    def passes(event: AnyEvent) -> bool:
        for test in functions:  # noqa: SIM110 - a generator costs as much as two tests
            if not test(event):
                return False
        return True

    test = functions[0] if len(functions) == 1 else passes
    name = " and ".join(map(_shown, tests)) or "everything"
    return _known(Predicate(test, name), reduce(and_, map(reach_of, tests), EVERYTHING))


def any_of(*tests: PredicateFunc) -> Predicate:
    """Return a predicate that passes if one of `tests` passes. Without tests, no event passes."""
    functions = tuple(map(test_of, tests))

    def passes(event: AnyEvent) -> bool:
        for test in functions:  # noqa: SIM110 - a generator costs as much as two tests
            if test(event):
                return True
        return False

    test = functions[0] if len(functions) == 1 else passes
    name = " or ".join(map(_shown, tests)) or "nothing"
    return _known(Predicate(test, name), reduce(or_, map(reach_of, tests), NOTHING))


def test_of(predicate: PredicateFunc) -> PredicateFunc:
    """Return the function of a `Predicate`, without the call of its object."""
    return predicate.test if type(predicate) is Predicate else predicate


def reach_of(test: PredicateFunc | bool) -> Reach:
    """Return the forms of events that a test can pass."""
    if isinstance(test, bool):
        return EVERYTHING if test else NOTHING
    return test.reach if isinstance(test, Predicate) else ANYTHING


def _known(predicate: Predicate, reach: Reach) -> Predicate:
    predicate.reach = reach
    return predicate


def _shown(test: PredicateFunc) -> str:
    name = test.name if isinstance(test, Predicate) else getattr(test, "__name__", "predicate")
    return f"({name})" if " " in name else name


def begins_deletion(finalizers: Container[str]) -> Predicate:
    """Return a predicate that passes if an object with one of `finalizers` is being deleted, and was not before.

    A controller adds it to the predicates of the kind whose finalizers it runs. Otherwise a predicate that drops the
    event would leave the object terminating forever.
    """

    def begins(event: AnyEvent) -> bool:
        new, old = event.new, event.old
        if new is None or not new.deleting or (old is not None and old.deleting and old.uid == new.uid):
            return False
        return any(name in finalizers for name in new.finalizers)

    return Predicate(begins, "a deletion begins")


def on(
    *,
    create: PredicateFunc | bool = True,
    update: PredicateFunc | bool = True,
    delete: PredicateFunc | bool = True,
    generic: PredicateFunc | bool = True,
) -> Predicate:
    """Return a predicate with one test for each event type. True passes all events, False none.

    >>> only_updates = on(create=False, delete=False, generic=False)
    """
    tests = {
        EventType.CREATE: create,
        EventType.UPDATE: update,
        EventType.DELETE: delete,
        EventType.GENERIC: generic,
    }

    def test(event: AnyEvent) -> bool:
        chosen = tests[event.type]
        return chosen if isinstance(chosen, bool) else chosen(event)

    reaches = (reach_of(chosen).within(OF_TYPE[kind]) for kind, chosen in tests.items())
    passes, drops = (reduce(or_, sets) for sets in zip(*reaches, strict=True))
    return _known(Predicate(test, "on"), Reach(passes, drops))


def of_object(test: Callable[[Any], bool]) -> Predicate:
    """Return a predicate on the decoded object; for updates, the new one."""
    return Predicate(lambda event: test(event.view.object), getattr(test, "__name__", "of_object"))


def _changed(
    name: str, value: Callable[[ObjectView[AnyObject]], Any], changed: Callable[[EventForm], bool | None]
) -> Predicate:
    """Return a predicate that drops updates with an equal `value`. Other events pass.

    `changed` is the same for a form of an event.
    """

    def test(event: AnyEvent) -> bool:
        if event.type is not EventType.UPDATE:
            return True
        return event.old is not None and event.new is not None and value(event.old) != value(event.new)

    return _known(
        Predicate(test, name), Reach.of(lambda form: form.type is not EventType.UPDATE or bool(changed(form)))
    )


def resource_version_changed() -> Predicate:
    """Drop updates without a change, such as resyncs (``ResourceVersionChangedPredicate``)."""
    return _changed("resource_version_changed", lambda v: v.resource_version, lambda form: form.version)


def generation_changed() -> Predicate:
    """Drop updates that do not change the spec: status and metadata changes (``GenerationChangedPredicate``).

    The start of a deletion passes, because it increases the generation. Kinds without a generation, such as ConfigMap
    and Secret, pass with each change.
    """
    return _changed("generation_changed", lambda v: v.generation or v.resource_version, _changes_generation)


def _changes_generation(form: EventForm) -> bool:
    return form.version if form.generation is None else form.generation


def labels_changed() -> Predicate:
    """Drop updates that do not change the labels (``LabelChangedPredicate``)."""
    return _changed("labels_changed", lambda v: v.labels, lambda form: form.labels)


def annotations_changed() -> Predicate:
    """Drop updates that do not change the annotations (``AnnotationChangedPredicate``)."""
    return _changed("annotations_changed", lambda v: v.metadata.annotations, lambda form: form.annotations)


def matches_labels(selector: str | Mapping[str, str] | LabelSelector | LabelRequirements) -> Predicate:
    """Drop events of objects that the selector does not match. Raises `UsageError` if the selector is invalid."""
    parsed = as_selector(selector)
    every = EVERYTHING if not parsed.requirements else ANYTHING
    predicate = Predicate(lambda event: parsed.matches(event.view.labels), f"matches {parsed}")
    return _known(predicate, NOTHING if parsed.nothing else every)


def ignore_own_writes() -> Predicate:
    """Drop events that are exactly one write of this process's own client, and no other change.

    A reconciler that writes the object it reconciles needs no second run for its own write. A change is dropped only
    if it certainly is our own: a create, or an update or patch with the previous resource version, which the watch
    shows without a gap. Other writes pass, and so do changes that a list combined after a reconnection.
    """
    predicate = Predicate(lambda event: not event.own, "ignore_own_writes")
    return _known(predicate, Reach.of(lambda form: not form.own))
