"""Which events matter. Predicates combine with ``&``, ``|`` and ``~``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.object import AnyObject
from opsdk.apimachinery.selectors import Selector, as_selector
from opsdk.event.event import AnyEvent, EventType, ObjectView

PredicateFunc = Callable[[AnyEvent], bool]


class Predicate:
    """A test on events.

    >>> p = generation_changed() | labels_changed()
    """

    def __init__(self, test: PredicateFunc, name: str = "") -> None:
        self._test = test
        self.name = name or getattr(test, "__name__", "predicate")

    def __call__(self, event: AnyEvent) -> bool:
        """Whether the event matters."""
        return self._test(event)

    def __and__(self, other: PredicateFunc) -> Predicate:
        return all_of(self, other)

    def __or__(self, other: PredicateFunc) -> Predicate:
        return any_of(self, other)

    def __invert__(self) -> Predicate:
        return Predicate(lambda event: not self._test(event), f"not {self.name}")

    def __repr__(self) -> str:
        return f"<Predicate {self.name}>"


def all_of(*tests: PredicateFunc) -> Predicate:
    """All must hold; none at all holds always."""
    return Predicate(lambda event: all(t(event) for t in tests), f"all of {len(tests)}")


def any_of(*tests: PredicateFunc) -> Predicate:
    """One must hold; none at all never holds."""
    return Predicate(lambda event: any(t(event) for t in tests), f"any of {len(tests)}")


def on(
    *,
    create: PredicateFunc | bool = True,
    update: PredicateFunc | bool = True,
    delete: PredicateFunc | bool = True,
    generic: PredicateFunc | bool = True,
) -> Predicate:
    """A test for each kind of event; True lets all pass, False none.

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

    return Predicate(test, "on")


def of_object(test: Callable[[Any], bool]) -> Predicate:
    """A test on the object itself (the new one in updates). It is decoded for it."""
    return Predicate(lambda event: test(event.view.object), getattr(test, "__name__", "of_object"))


def _changed(name: str, value: Callable[[ObjectView[AnyObject]], Any]) -> Predicate:
    """Updates in which `value` differs; other events pass."""

    def test(event: AnyEvent) -> bool:
        if event.type is not EventType.UPDATE:
            return True
        return event.old is not None and event.new is not None and value(event.old) != value(event.new)

    return Predicate(test, name)


def resource_version_changed() -> Predicate:
    """Drops updates in which nothing changed, such as resyncs."""
    return _changed("resource_version_changed", lambda v: v.resource_version)


def generation_changed() -> Predicate:
    """Drops updates that leave the spec alone: status and metadata changes.

    Beginning a deletion counts: it raises the generation.
    """
    return _changed("generation_changed", lambda v: v.generation)


def labels_changed() -> Predicate:
    """Drops updates that leave the labels alone."""
    return _changed("labels_changed", lambda v: v.labels)


def annotations_changed() -> Predicate:
    """Drops updates that leave the annotations alone."""
    return _changed("annotations_changed", lambda v: v.metadata.annotations)


def matches_labels(selector: str | Mapping[str, str] | LabelSelector | Selector) -> Predicate:
    """Objects with these labels; an invalid selector is a `UsageError` here, not later."""
    parsed = as_selector(selector)
    return Predicate(lambda event: parsed.matches(event.view.labels), f"matches {parsed}")
