"""Predicates: decide which events are handled. They combine with ``&``, ``|`` and ``~``.

Upstream: sigs.k8s.io/controller-runtime/pkg/predicate/predicate.go
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.object import AnyObject
from opsdk.apimachinery.selectors import LabelRequirements, as_selector
from opsdk.event.event import AnyEvent, EventType, ObjectView

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
        passes_nothing: it is known that no event ever passes. A controller refuses such a predicate.
    """

    def __init__(self, test: PredicateFunc, name: str = "", *, passes_nothing: bool = False) -> None:
        self.test = test
        self.passes_nothing = passes_nothing
        self.name = name or getattr(test, "__name__", "predicate")

    def __call__(self, event: AnyEvent) -> bool:
        """Whether the event passes."""
        return self.test(event)

    def __and__(self, other: PredicateFunc) -> Predicate:
        return all_of(self, other)

    def __or__(self, other: PredicateFunc) -> Predicate:
        return any_of(self, other)

    def __invert__(self) -> Predicate:
        return Predicate(lambda event: not self.test(event), f"not {self.name}")

    def __repr__(self) -> str:
        return f"<Predicate {self.name}>"


def all_of(*tests: PredicateFunc) -> Predicate:
    """Return a predicate that passes if all `tests` pass. Without tests, every event passes."""
    never, functions = any(map(_passes_nothing, tests)), tuple(map(test_of, tests))

    def passes(event: AnyEvent) -> bool:
        for test in functions:  # noqa: SIM110 - a generator costs as much as two tests
            if not test(event):
                return False
        return True

    test = functions[0] if len(functions) == 1 else passes
    return Predicate(test, f"all of {len(tests)}", passes_nothing=never)


def any_of(*tests: PredicateFunc) -> Predicate:
    """Return a predicate that passes if one of `tests` passes. Without tests, no event passes."""
    never, functions = all(map(_passes_nothing, tests)), tuple(map(test_of, tests))

    def passes(event: AnyEvent) -> bool:
        for test in functions:  # noqa: SIM110 - a generator costs as much as two tests
            if test(event):
                return True
        return False

    test = functions[0] if len(functions) == 1 else passes
    return Predicate(test, f"any of {len(tests)}", passes_nothing=never)


def test_of(predicate: PredicateFunc) -> PredicateFunc:
    """Return the function of a `Predicate`, without the call of its object."""
    return predicate.test if type(predicate) is Predicate else predicate


def _passes_nothing(test: PredicateFunc | bool) -> bool:
    return test is False or (isinstance(test, Predicate) and test.passes_nothing)


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

    return Predicate(test, "on", passes_nothing=all(map(_passes_nothing, tests.values())))


def of_object(test: Callable[[Any], bool]) -> Predicate:
    """Return a predicate on the decoded object; for updates, the new one."""
    return Predicate(lambda event: test(event.view.object), getattr(test, "__name__", "of_object"))


def _changed(name: str, value: Callable[[ObjectView[AnyObject]], Any]) -> Predicate:
    """Return a predicate that drops updates with an equal `value`. Other events pass."""

    def test(event: AnyEvent) -> bool:
        if event.type is not EventType.UPDATE:
            return True
        return event.old is not None and event.new is not None and value(event.old) != value(event.new)

    return Predicate(test, name)


def resource_version_changed() -> Predicate:
    """Drop updates without a change, such as resyncs (``ResourceVersionChangedPredicate``)."""
    return _changed("resource_version_changed", lambda v: v.resource_version)


def generation_changed() -> Predicate:
    """Drop updates that do not change the spec: status and metadata changes (``GenerationChangedPredicate``).

    The start of a deletion passes, because it increases the generation. Kinds without a generation, such as ConfigMap
    and Secret, pass with each change.
    """
    return _changed("generation_changed", lambda v: v.generation or v.resource_version)


def labels_changed() -> Predicate:
    """Drop updates that do not change the labels (``LabelChangedPredicate``)."""
    return _changed("labels_changed", lambda v: v.labels)


def annotations_changed() -> Predicate:
    """Drop updates that do not change the annotations (``AnnotationChangedPredicate``)."""
    return _changed("annotations_changed", lambda v: v.metadata.annotations)


def matches_labels(selector: str | Mapping[str, str] | LabelSelector | LabelRequirements) -> Predicate:
    """Drop events of objects that the selector does not match. Raises `UsageError` if the selector is invalid."""
    parsed = as_selector(selector)
    return Predicate(
        lambda event: parsed.matches(event.view.labels), f"matches {parsed}", passes_nothing=parsed.nothing
    )


def ignore_own_writes() -> Predicate:
    """Drop events that are exactly one write of this process's own client, and no other change.

    A reconciler that writes the object it reconciles needs no second run for its own write. A change is dropped only
    if it certainly is our own: a create, or an update or patch with the previous resource version, which the watch
    shows without a gap. Other writes pass, and so do changes that a list combined after a reconnection.
    """
    return Predicate(lambda event: not event.own, "ignore_own_writes")
