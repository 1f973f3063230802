"""Exhaustive search: it ends, it finds what needs one certain order, and it leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import envtest
from opsdk import Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.client.patch import merge_patch
from opsdk.errors import OpsdkError, UsageError
from opsdk.testing.simulate import Simulation, World
from opsdk.verification.exploration.bounds import Bounds, Choice, Option
from opsdk.verification.exploration.explore import explore, verify_schedule
from opsdk.verification.exploration.known_states import KnownStates
from opsdk.verification.exploration.variables import object_state
from opsdk.verification.guided_run import WorkloadStep

NAMESPACE = "default"
DONE = "example.com/done"
Body = Callable[[ConfigMap, Context], Awaitable[None]]
STEPS = [WorkloadStep("create_parent"), WorkloadStep("edit_parent")]


# ---------------------------------------------------------------- users
def parent(text: str) -> ConfigMap:
    """The one parent of all workloads."""
    return ConfigMap(metadata=ObjectMeta(name="parent", namespace=NAMESPACE), data={"text": text})


async def create_parent(world: World) -> None:
    """Create the parent, or change its text back."""
    await world.client.apply(parent("one"), field_owner="user", force=True)


async def edit_parent(world: World) -> None:
    """Change its text."""
    await world.client.apply(parent("two"), field_owner="user", force=True)


async def fail(_: World) -> None:
    """An action with a bug of its own."""
    raise LookupError("no such thing")


async def anything(_: World) -> None:
    """No check: the end without a disturbance tells what is right."""


def declare(reconcile: Body) -> Simulation:
    """An operator with one reconciler."""

    def make() -> Operator:
        operator = Operator("exploration")

        @operator.reconciler(ConfigMap)
        async def reconcile_parent(obj: ConfigMap, ctx: Context) -> None:
            if obj.metadata.name == "parent":
                await reconcile(obj, ctx)

        return operator

    return Simulation(
        operator=make, environment=envtest.Environment, actions=[create_parent, edit_parent, fail], check=anything
    )


# ---------------------------------------------------------------- operators
async def good(obj: ConfigMap, ctx: Context) -> None:
    """Copies the text into a Secret."""
    copy = Secret(metadata=ObjectMeta(name="copy", namespace=NAMESPACE), string_data={"text": obj.data["text"]})
    await ctx.apply(copy)


async def note_what_is_newest(obj: ConfigMap, ctx: Context) -> None:
    """The bug: it copies the text that it has seen, and then notes the text that is there now."""
    if obj.metadata.annotations.get(DONE) == obj.data["text"]:
        return
    await good(obj, ctx)
    newest = await ctx.client.get(ConfigMap, "parent", namespace=NAMESPACE, uncached=True)
    await ctx.client.patch(newest, merge_patch({"metadata": {"annotations": {DONE: newest.data["text"]}}}))


async def use_a_thread(obj: ConfigMap, ctx: Context) -> None:
    """A thread does a part of the work."""
    await asyncio.to_thread(sum, range(3))
    await good(obj, ctx)


# ---------------------------------------------------------------- laws
bounds = st.builds(Bounds, crashes=st.integers(0, 2), stale_views=st.integers(0, 2), deviations=st.integers(0, 2))


@given(st.lists(st.tuples(st.binary(min_size=8, max_size=8), bounds), max_size=20))
def test_a_state_is_known_if_a_search_went_on_with_as_much(additions: list[tuple[bytes, Bounds]]) -> None:
    """Compared with a list of all additions."""
    states = KnownStates(Bounds(crashes=2, stale_views=2, deviations=2), slots=64)
    earlier: list[tuple[bytes, Bounds]] = []
    for state, rest in additions:
        covered = any(
            state == other
            and more.crashes >= rest.crashes
            and more.stale_views >= rest.stale_views
            and more.deviations >= rest.deviations
            for other, more in earlier
        )
        assert states.add(state, rest) is not covered
        earlier.append((state, rest))
    assert len(states) == len({state for state, _ in additions})


def test_a_full_table_says_so() -> None:
    """It does not go on with states that it cannot recognise."""
    states = KnownStates(Bounds(), slots=4)
    for number in range(4):
        states.add(number.to_bytes(8, "big"), Bounds())
    with pytest.raises(OpsdkError, match="more than 4 states"):
        states.add(b"12345678", Bounds())


@pytest.mark.parametrize("bounds_left", [Bounds(), Bounds(crashes=0, stale_views=0, deviations=0)])
def test_options_cost_their_part_of_the_bounds(bounds_left: Bounds) -> None:
    """What is left covers no option that costs more."""
    for option in Option:
        after = bounds_left.after(option)
        total = bounds_left.crashes + bounds_left.stale_views + bounds_left.deviations
        assert after is None or after.crashes + after.stale_views + after.deviations == total - 1
        assert (after is None) == (total == 0)


def test_bounds_without_end_are_refused() -> None:
    """A search with them would not end."""
    with pytest.raises(UsageError, match="too large"):
        Bounds(deviations=64)


def test_the_state_of_doubles_has_no_addresses() -> None:
    """Equal doubles have equal states, also if they know each other."""

    class System:
        def __init__(self) -> None:
            self.records, self.myself = {"a": [1, {2}]}, self

    assert object_state(System()) == object_state(System())
    assert object_state(System()) != object_state({"a": 1})


# ---------------------------------------------------------------- searches
@pytest.mark.slow
def test_a_search_is_complete() -> None:
    """The same number of states, for any number of processes."""
    small = Bounds(crashes=0, stale_views=0, deviations=1)
    one, two = (explore(declare(good), STEPS, small, processes=count) for count in (1, 2))
    assert one.counterexamples == two.counterexamples == []
    assert one.complete
    assert two.complete
    assert one.states > one.runs > 5
    assert str(one).startswith(f"complete: {one.states} states (crashes 0, stale views 0, deviations 1)")


@pytest.mark.slow
def test_more_bounds_have_more_states() -> None:
    """Each bound adds schedules that the others do not have."""
    nothing = Bounds(crashes=0, stale_views=0, deviations=0)
    least = explore(declare(good), STEPS, nothing)
    assert least.runs == 1
    for more in (Bounds(crashes=1, stale_views=0, deviations=0), Bounds(crashes=0, stale_views=0, deviations=1)):
        assert explore(declare(good), STEPS, more).states > least.states


@pytest.mark.slow
def test_an_order_of_tasks_has_its_own_search() -> None:
    """The seed of an order gives a complete search, the same number of states each time."""
    small = Bounds(crashes=1, stale_views=0, deviations=0)
    one, two = (explore(declare(good), STEPS, small, order=1) for _ in range(2))
    assert one.complete
    assert (one.states, one.counterexamples) == (two.states, [])


@pytest.mark.slow
def test_what_an_operator_remembers_is_a_part_of_the_state() -> None:
    """A crash forgets variables: with the same objects, it is another state than before."""

    def remembering() -> Body:
        texts: list[str] = []

        async def reconcile(obj: ConfigMap, ctx: Context) -> None:
            texts.append(obj.data["text"])
            await good(obj, ctx)

        return reconcile

    bounds = Bounds(crashes=1, stale_views=0, deviations=0)
    body = remembering()
    assert explore(declare(body), STEPS, bounds).states > explore(declare(good), STEPS, bounds).states


@pytest.mark.slow
def test_a_bug_of_one_order_is_found() -> None:
    """The user's edit has to come between two requests of one reconcile. The schedule repeats it."""
    declared = declare(note_what_is_newest)
    exploration = explore(declared, STEPS, Bounds(crashes=0, stale_views=0, deviations=1))
    assert not exploration.complete
    broken = exploration.counterexamples[0]
    assert [choice.option for choice in broken.schedule] == [Option.NEXT_ACTION]
    assert "state at rest: secrets default/copy" in broken.violations[0]
    assert "default/parent" in broken.journal
    assert "next_action at point" in str(broken)
    assert verify_schedule(declared, STEPS, broken.schedule) == broken.violations
    assert verify_schedule(declared, STEPS, ()) == ()


def test_a_schedule_of_a_correct_operator_breaks_nothing() -> None:
    """A schedule may be played for another operator."""
    schedule = [Choice(2, Option.CRASH), Choice(6, Option.LATE)]
    assert verify_schedule(declare(good), STEPS, schedule) == ()


# ---------------------------------------------------------------- ends
def test_a_search_without_time_is_not_complete() -> None:
    """It says so, with the states that it reached."""
    exploration = explore(declare(good), STEPS, time_limit=0.0)
    assert not exploration.complete
    assert exploration.counterexamples == []
    assert str(exploration).startswith("not complete: ")


def test_an_operator_with_threads_is_refused() -> None:
    """A copy of a process has none of its threads."""
    with pytest.raises(OpsdkError, match="the operator uses threads"):
        explore(declare(use_a_thread), STEPS)


class ChanceOperator:
    """Writes a number that is another one from the third run on."""

    def __init__(self) -> None:
        self.runs = 0

    async def reconcile(self, obj: ConfigMap, ctx: Context) -> None:
        """Keep the number that the copy has."""
        if await ctx.client.get_or_none(Secret, "copy", namespace=NAMESPACE) is None:
            self.runs += 1
            number = str(max(self.runs, 2))
            meta = ObjectMeta(name="copy", namespace=NAMESPACE)
            await ctx.apply(Secret(metadata=meta, string_data={"number": number}))


@pytest.mark.slow
def test_an_operator_that_decides_by_chance_is_refused() -> None:
    """Equal runs differ, so that no order is the reason."""
    with pytest.raises(OpsdkError, match=r"two equal runs differ \(state at rest: secrets default/copy"):
        explore(declare(ChanceOperator().reconcile), STEPS, Bounds(crashes=0, stale_views=0, deviations=0))


async def ask_outside_what_is_newest(obj: ConfigMap, ctx: Context) -> None:
    """Calls a service outside of the cluster if the object has changed meanwhile."""
    newest = await ctx.client.get(ConfigMap, "parent", namespace=NAMESPACE, uncached=True)
    if newest.data != obj.data:
        socket.create_connection(("newest.example.com", 443))
    await good(obj, ctx)


@pytest.mark.slow
def test_a_connection_of_one_order_ends_the_search() -> None:
    """The sentence says what to add."""
    with pytest.raises(OpsdkError, match=r"does not reach newest\.example\.com:443: declare doubles"):
        explore(declare(ask_outside_what_is_newest), STEPS, Bounds(crashes=0, stale_views=0, deviations=1))


def test_an_error_of_an_action_is_shown() -> None:
    """It is not an error of the operator."""
    with pytest.raises(LookupError, match="no such thing"):
        explore(declare(good), [WorkloadStep("fail")])


def test_a_platform_without_fork_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to use."""
    monkeypatch.delattr(os, "fork")
    with pytest.raises(UsageError, match="Linux or macOS"):
        explore(declare(good), STEPS)


@pytest.mark.slow
def test_no_process_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process group of the search is gone. The test's process may have other children."""
    fork, groups = os.fork, list[int]()

    def recorded() -> int:
        pid = fork()
        groups.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", recorded)
    explore(declare(good), STEPS, Bounds(crashes=1, stale_views=0, deviations=0))
    (group,) = groups
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)
