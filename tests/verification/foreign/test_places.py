"""The places of a run are found again in another run, whose requests come in another order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.engine.world.disturber import WatchMessage
from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.rest_state import RestState
from opsdk.engine.writes import Entry, Writer
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.disturbances import DisturbanceKind, most_different
from opsdk.verification.foreign.places import Moment, PlaceCounter, pasts, placed_disturbances, stable_state

SITES = "/apis/demo.opsdk.dev/v1/sites"
POD = "/api/v1/namespaces/default/pods/"
WRITER = Writer(user="admin", manager="foreign")


@given(st.permutations(["a", "a", "b", "b", "b"]))
def test_a_write_is_found_again_in_any_order(names: list[str]) -> None:
    """By its method, its path, and how often it was sent."""
    places = PlaceCounter()
    writes = [places.write("PATCH", POD + name) for name in names]
    assert sorted(writes) == [(POD + "a", 1), (POD + "a", 2), (POD + "b", 1), (POD + "b", 2), (POD + "b", 3)]


def test_a_generated_name_is_a_star() -> None:
    """Requests for objects that have another name in each run count together."""
    places = PlaceCounter({POD + "web", "default/web"})
    assert places.write("PATCH", POD + "web") == (POD + "web", 1)
    assert places.write("PATCH", f"{POD}web-x7f2") == (f"{POD}*", 1)
    assert places.write("PATCH", f"{POD}web-9q1d") == (f"{POD}*", 2)
    assert places.message("/api/v1/pods", ["default/web"]) == ("default/web", 1)
    assert places.message("/api/v1/pods", ["default/web-x7f2"]) == ("default/*", 1)


def test_kinds_of_disturbances_take_turns() -> None:
    """A time limit leaves out none of them wholly."""
    writes = [Exchange(time=0.0, client="a", method="PUT", target=f"{POD}{n}", revision=n) for n in (1, 2)]
    messages = [WatchMessage(path=SITES, number=n, keys=("default/a",), action=0) for n in (1, 2)]
    chosen, beyond = most_different([(0, each) for each in placed_disturbances(writes, messages, set())], 6)
    assert len({each.kind for _, each in chosen}) == 6
    assert beyond.total() > 0
    texts = map(str, placed_disturbances(writes, messages, {"default/a"}))
    assert f"crash_after write 2, PUT {POD}* (time 2)" in texts


def test_states_with_random_names_compare() -> None:
    """Objects whose names are not known share one key, and their numbers add up."""
    first = RestState(objects={"core/pods/a/x1": [{"b": 1}], "core/pods/a/web": [{}]}, created={}, deleted={})
    other = RestState(
        objects={"core/pods/a/x2": [{"b": 1}], "core/pods/a/web": [{}]}, created={"core/pods/a/x2": 1}, deleted={}
    )
    names = {"core/pods/a/web"}
    assert stable_state(first, names).objects == stable_state(other, names).objects
    assert stable_state(other, names).created == {"core/pods/a/*": 1}


def test_records_of_kopf_are_not_compared() -> None:
    """They tell how an operator came to a state, not the state."""
    annotations = {"kopf.zalando.org/last-handled-configuration": "{}", "a": "b"}
    state = RestState(objects={"core/pods/a/web": [{"metadata": {"annotations": annotations}}]}, created={}, deleted={})
    assert stable_state(state, ["core/pods/a/web"]).objects == {
        "core/pods/a/web": [{"metadata": {"annotations": {"a": "b"}}}]
    }


# ---------------------------------------------------------------- restarts into the past
def entry(revision: int, after: JsonObject | None, *, own: bool = False, resource: str = "sites") -> tuple[Entry, bool]:
    """A stored write to the object default/a."""
    key = f"demo.opsdk.dev/{resource}/default/a"
    return Entry(revision=revision, writer=WRITER, key=key, before=None, after=after), own


def obj(size: int, *, deleted: bool = False) -> JsonObject:
    """A state of the object."""
    return {"metadata": {"name": "a"} | ({"deletionTimestamp": "now"} if deleted else {}), "spec": {"size": size}}


CHILD_GONE = entry(3, None, own=True, resource="volumes")
HISTORY = [entry(1, obj(1)), entry(2, obj(1, deleted=True)), CHILD_GONE, entry(4, None, own=True), entry(5, obj(1))]
MOMENTS = [Moment(0, 1, 1), Moment(1, 2, 4), Moment(4, 5, 5)]


def test_a_re_creation_reverses_a_deletion() -> None:
    """The operator may see the former object about to go, or see it gone."""
    first, second = pasts(HISTORY, MOMENTS, [SITES])
    assert (first.past, first.step, first.settled) == (1, 2, False)
    assert (second.past, second.step, second.settled) == (1, 2, True)
    assert str(first) == f"restart_into_past after step 3, {SITES} as it was right after the user's write of step 2"


def test_a_value_that_returns_reverses_a_change() -> None:
    """A scale to zero and back: the stale view has the zero."""
    history = [entry(1, obj(3)), entry(2, obj(0)), CHILD_GONE, entry(4, obj(3))]
    moments = [Moment(0, 1, 1), Moment(1, 2, 3), Moment(3, 4, 4)]
    assert [(each.past, each.step) for each in pasts(history, moments, [SITES])] == [(1, 2), (1, 2)]


def test_nothing_else_is_a_past() -> None:
    """Causality prunes: no re-creation, no deletion by the operator, or no list at any version."""
    assert not list(pasts(HISTORY[:4], MOMENTS[:2], [SITES]))
    alone = [each for each in HISTORY if not each[1]] + [entry(4, None)]
    assert not list(pasts(sorted(alone, key=lambda each: each[0].revision), MOMENTS, [SITES]))
    assert not list(pasts(HISTORY, MOMENTS, []))
    assert {each.kind for each in pasts(HISTORY, MOMENTS, [SITES])} == {DisturbanceKind.PAST}
