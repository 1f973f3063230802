"""Which events matter."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from cache_events import created, deleted, updated, view
from hypothesis import given
from hypothesis import strategies as st

from opsdk import Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.builder.arguments import OwnsSpec, WatchSpec
from opsdk.errors import UsageError
from opsdk.event.event import AnyEvent, Event, EventType
from opsdk.event.predicates import (
    Predicate,
    all_of,
    annotations_changed,
    any_of,
    generation_changed,
    ignore_own_writes,
    labels_changed,
    matches_labels,
    of_object,
    on,
    resource_version_changed,
)
from opsdk.event.reach import FORMS, RESYNC, WITHOUT_GENERATION, EventForm, Reach, forms
from opsdk.event.request import Request

YES = Predicate(lambda _: True, "yes")
NO = Predicate(lambda _: False, "no")
EVENTS = [created(view()), updated(view(version=1), view(version=2)), deleted(view())]


@pytest.mark.behaviour(98)
def test_all_of_nothing_is_true_and_any_of_nothing_is_false() -> None:
    """Without tests, `all_of` passes every event and `any_of` none."""
    assert all_of()(EVENTS[0])
    assert not any_of()(EVENTS[0])


@pytest.mark.behaviour(98)
@pytest.mark.parametrize("seed", range(50))
def test_predicates_combine_like_booleans(seed: int) -> None:
    """Predicates combined with &, | and ~ evaluate like the same boolean expression."""
    rng = random.Random(seed)

    def build(depth: int) -> tuple[Predicate, bool]:
        if depth == 0:
            return rng.choice([(YES, True), (NO, False)])
        first, a = build(depth - 1)
        right, b = build(depth - 1)
        return rng.choice([(first & right, a and b), (first | right, a or b), (~first, not a)])

    for _ in range(20):
        predicate, expected = build(rng.randrange(5))
        assert all(predicate(event) is expected for event in EVENTS)


def test_combinations_stop_at_the_first_decisive_predicate() -> None:
    """Predicates after the decisive one are not called."""

    def never(_: AnyEvent) -> bool:
        raise AssertionError

    assert not (NO & never)(EVENTS[0])
    assert (YES | never)(EVENTS[0])


@pytest.mark.behaviour(97)
@pytest.mark.parametrize(
    ("predicate", "same", "other"),
    [
        (generation_changed(), {"generation": 1}, {"generation": 2}),
        (labels_changed(), {"labels": {"a": "b"}}, {"labels": {"a": "c"}}),
        (annotations_changed(), {"annotations": {"a": "b"}}, {"annotations": {"a": "c"}}),
    ],
)
def test_changed_predicates_only_look_at_updates(predicate: Predicate, same: dict, other: dict) -> None:
    """An update must differ in the one thing; creations, deletions and generic events pass."""
    assert not predicate(updated(view(version=1, **same), view(version=2, **same)))
    assert predicate(updated(view(version=1, **same), view(version=2, **other)))
    for event in (created(view(**same)), deleted(view(**same)), Event(type=EventType.GENERIC, new=view(**same))):
        assert predicate(event)


@given(st.integers(0, 2), st.integers(0, 2), st.integers(1, 2), st.integers(1, 2))
def test_a_kind_without_a_generation_passes_each_change(before: int, after: int, old: int, new: int) -> None:
    """A ConfigMap or a Secret has no generation, so each update of it passes, except a resync."""
    event = updated(view(version=old, generation=before), view(version=new, generation=after))
    is_changed = before != after if before or after else old != new
    assert generation_changed()(event) is is_changed


@pytest.mark.parametrize(
    ("predicate", "never"),
    [
        (any_of(), True),
        (any_of(any_of(), on(create=False, update=False, delete=False, generic=False)), True),
        (all_of(YES, any_of()), True),
        (matches_labels(LabelRequirements(nothing=True)), True),
        (any_of() & generation_changed(), True),
        (on(update=any_of(), create=False, delete=False, generic=False), True),
        (any_of() | YES, False),
        (~any_of(), False),
        (all_of(), False),
        (NO, False),
        (on(create=False, update=False, delete=False), False),
    ],
)
def test_a_predicate_that_passes_no_event_is_known(predicate: Predicate, never: bool) -> None:
    """What never passes is known from its parts, and is an error at the declaration of a controller."""
    assert predicate.passes_nothing is never
    if never:
        assert not any(map(predicate, [*EVENTS, Event(type=EventType.GENERIC, new=view())]))
    operator = Operator("x")
    declarations: list[dict[str, Any]] = [
        {"predicates": [predicate]},
        {"event_filter": [predicate]},
        {"owns": [OwnsSpec(kind=Secret, predicates=[predicate])]},
        {"watches": [WatchSpec(kind=Secret, handler=_to_request, predicates=[predicate])]},
    ]
    for number, options in enumerate(declarations):
        with pytest.raises(UsageError, match="passes no event") if never else nullcontext():
            operator.reconciler(ConfigMap, name=f"c{number}", **options)(_reconcile)


def example(form: EventForm) -> AnyEvent:
    """An event of a form."""
    if form.type is not EventType.UPDATE:
        side = {"old": view()} if form.type is EventType.DELETE else {"new": view()}
        return Event(type=form.type, own=form.own, **side)
    before, after = (0, 0) if form.generation is None else (1, 1 + form.generation)
    changes = {"labels": {"a": "b"} if form.labels else {}, "annotations": {"a": "b"} if form.annotations else {}}
    old = view(version=1, generation=before, labels={}, annotations={})
    return Event(type=form.type, own=form.own, old=old, new=view(version=1 + form.version, generation=after, **changes))


EXAMPLES = {form: example(form) for form in FORMS}
ATOMS = st.sampled_from(
    [
        generation_changed(),
        labels_changed(),
        annotations_changed(),
        resource_version_changed(),
        ignore_own_writes(),
        all_of(),
        any_of(),
        matches_labels(""),
        on(update=False),
        on(create=False, delete=False, generic=False),
        on(create=False, update=generation_changed(), delete=False, generic=False),
    ]
)
KNOWN = ATOMS
for _ in range(3):
    KNOWN = st.one_of(
        ATOMS,
        KNOWN.map(lambda one: ~one),
        st.tuples(KNOWN, KNOWN).map(lambda two: two[0] & two[1]),
        st.tuples(KNOWN, KNOWN).map(lambda two: two[0] | two[1]),
    )
GUESSED = st.one_of(
    KNOWN, st.just(YES), st.just(NO), st.tuples(KNOWN, st.sampled_from([YES, NO])).map(lambda two: all_of(*two))
)


@given(KNOWN)
def test_what_a_combination_passes_is_known_exactly(predicate: Predicate) -> None:
    """Combinations of the predicates of opsdk, up to depth 3, pass the forms of events that their reach has."""
    assert predicate.reach == Reach.of(lambda form: predicate(EXAMPLES[form]))


@given(GUESSED, GUESSED)
def test_a_function_of_the_user_is_never_refused(one: Predicate, two: Predicate) -> None:
    """The reach of a combination with unknown functions has each form that passes, and each that is dropped."""
    for predicate in (one, ~one, one & two, one | two):
        passes = forms(lambda form, predicate=predicate: predicate(EXAMPLES[form]))  # type: ignore[misc]
        assert predicate.reach.passes & passes == passes
        assert predicate.reach.drops | passes == forms(lambda _: True)


def declared(kind: Any, predicates: Sequence[Predicate]) -> str:
    """The error of a declaration; empty without one."""
    try:
        Operator("x").reconciler(kind, predicates=predicates)(_reconcile_any)
    except UsageError as error:
        return str(error)
    return ""


@given(KNOWN)
def test_a_declaration_refuses_exactly_what_passes_nothing(predicate: Predicate) -> None:
    """Of a kind without a generation, that is also what would pass a change only because of the generation."""

    def passes(condition: Callable[[EventForm], bool]) -> bool:
        return any(predicate(event) for form, event in EXAMPLES.items() if condition(form))

    never = not passes(lambda _: True)
    without = not passes(lambda form: form != RESYNC and (form.generation is None or not form.version))
    of_others = passes(lambda form: form != RESYNC and form.generation is not None)
    assert ("passes no event:" in declared(Deployment, [predicate])) is never
    assert ("passes no event" in declared(ConfigMap, [predicate])) is (never or (without and of_others))


@pytest.mark.parametrize(
    "predicate",
    [
        ~generation_changed(),
        ~generation_changed() & labels_changed(),
        ~(generation_changed() | labels_changed()),
        on(create=False, delete=False, generic=False, update=~generation_changed()),
    ],
)
def test_a_kind_without_a_generation_needs_another_predicate(predicate: Predicate) -> None:
    """The message names the kind and the reason; a kind with a generation takes the predicate."""
    text = "passes no event of Secret but resyncs, because the kind has no generation"
    assert text in declared(Secret, [predicate])
    assert not declared(Deployment, [predicate])
    for options in (
        {"owns": [OwnsSpec(kind=Secret, predicates=[predicate])]},
        {"watches": [WatchSpec(kind=Secret, handler=_to_request, predicates=[predicate])]},
        {"owns": [Secret], "event_filter": [predicate]},
        {
            "owns": [OwnsSpec(kind=Deployment, predicates=[generation_changed()])],
            "event_filter": [~generation_changed()],
        },
    ):
        with pytest.raises(UsageError, match="passes no event"):
            Operator("x").reconciler(Deployment, **options)(_reconcile_any)


def test_predicates_of_a_list_are_combined() -> None:
    """An event must pass all of them, and every event filter."""
    assert "passes no event" in declared(Deployment, [labels_changed(), ~labels_changed()])
    assert not declared(Deployment, [generation_changed(), ~labels_changed() | on(update=False)])


def test_the_kinds_without_a_generation_are_those_of_the_server() -> None:
    """The local server counts no generation of them either."""
    traits = pytest.importorskip("envtest.groups.common.kind_traits", reason="needs the envtest extra")
    for kind in WITHOUT_GENERATION:
        assert not traits.traits_of(kind.group, f"{kind.kind.lower()}s").has_generation


async def _reconcile_any(request: Request) -> None: ...


def _to_request(obj: Secret) -> list[Request]:
    return [Request(obj.metadata.namespace, obj.metadata.name)]


async def _reconcile(obj: ConfigMap) -> None:
    """Do nothing."""


def test_resync_is_no_change_of_revision() -> None:
    """A resync has one revision twice and is dropped; an update passes."""
    assert not resource_version_changed()(updated(view(version=3), view(version=3)))
    assert resource_version_changed()(updated(view(version=3), view(version=4)))


@pytest.mark.behaviour(97)
def test_updates_without_a_side_do_not_crash() -> None:
    """An update that lacks old or new has not changed in any known way."""
    assert not generation_changed()(Event(type=EventType.UPDATE, new=view()))
    assert not labels_changed()(Event(type=EventType.UPDATE, old=view()))


def test_each_kind_of_event_has_its_test() -> None:
    """`on` asks the test of the event's kind; True and False stand for themselves."""
    only_b = on(create=lambda e: e.view.key.name == "b", update=False, delete=True, generic=False)
    assert not only_b(created(view("a")))
    assert only_b(created(view("b")))
    assert not only_b(EVENTS[1])
    assert only_b(EVENTS[2])
    assert not only_b(Event(type=EventType.GENERIC, new=view()))


def test_object_tests_see_the_new_one() -> None:
    """A test on the object gets the new one in updates, the last one in deletions."""
    names: list[str] = []
    predicate = of_object(lambda obj: bool(names.append(obj.metadata.resource_version) or True))
    assert predicate(updated(view(version=1), view(version=2)))
    assert predicate(deleted(view(version=5)))
    assert names == ["2", "5"]


@pytest.mark.behaviour(98)
def test_label_selectors_are_checked_at_once() -> None:
    """An invalid selector is refused at its declaration; a valid one selects by labels."""
    with pytest.raises(UsageError):
        matches_labels("app in (")
    predicate = matches_labels({"app": "web"})
    assert predicate(created(view(labels={"app": "web", "x": "y"})))
    assert not predicate(created(view(labels={"app": "db"})))
