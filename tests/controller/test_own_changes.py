"""Own status writes: a reconcile does not run again for its own write, and always for any other."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from boxes import Box, box, records, running
from hypothesis import given
from hypothesis import strategies as st

from opsdk import Context, ControllerOptions, Operator, Result
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import kind_of
from opsdk.cache.entry import make_entry
from opsdk.client.patch import merge_patch
from opsdk.controller.steps.own_changes import OwnChanges
from opsdk.event.event import AnyEvent, Event, EventType, ObjectView

KEY = ObjectKey("default", "a")


def view(version: int) -> ObjectView[Box]:
    """Return the box at a resource version."""
    entry, _ = make_entry(
        b'{"apiVersion":"tests.opsdk.dev/v1","kind":"Box","metadata":{"namespace":"default","name":"a",'
        b'"uid":"1","resourceVersion":"%d"}}' % version
    )
    return ObjectView(entry, kind_of(Box))


def update(before: int, after: int) -> AnyEvent:
    """Return the event of a write."""
    return Event(type=EventType.UPDATE, old=view(before), new=view(after))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3)), max_size=12), st.booleans())
def test_only_events_of_own_status_writes_are_dropped(writes: list[tuple[bool, int, int]], gap: bool) -> None:
    """Whenever the watch shows a write, an own one queues nothing and a foreign one its object.

    Each write is own or foreign, and is shown some steps later. A reconcile ends some steps after its write.
    """
    own = OwnChanges()
    queued: list[tuple[int, int]] = []
    steps: list[tuple[float, int, Callable[[], None]]] = []

    def show(before: int, after: int) -> None:
        if own.passes(update(before, after)):
            queued.append((before, after))

    def end(written: list[tuple[str, str]]) -> None:
        events = own.end(KEY, written)
        queued.extend((int(e.old.resource_version), int(e.new.resource_version)) for e in events if e.old and e.new)

    expected: list[tuple[int, int]] = []
    begun = 0.0
    for number, (is_own, shown_after, ends_after) in enumerate(writes):
        before, after = number, number + 1
        time = float(number)
        if is_own:
            # One reconcile of a key at a time: the next one begins when this one has ended.
            begun = max(begun + 0.1, time)
            steps.append((begun, 0, lambda: own.begin(KEY)))
            begun += ends_after + 0.5
            steps.append((begun, 2, lambda versions=(str(before), str(after)): end([versions])))  # type: ignore[misc]
            time = begun - ends_after - 0.25
        else:
            expected.append((before, after))
        if not gap:
            steps.append((time + shown_after, 1, lambda before=before, after=after: show(before, after)))  # type: ignore[misc]
    for _, _, step in sorted(steps, key=lambda item: item[:2]):
        step()
    if gap:  # a list shows the sum of all writes: that is not a single own write, unless there is only one
        show(0, len(writes))
        expected = [(0, len(writes))] if len(writes) != 1 or expected else []
    assert sorted(queued) == sorted(expected)


def test_a_deletion_forgets_the_writes_of_its_object() -> None:
    """A write that the watch has not shown is kept while its object lives."""
    own = OwnChanges()
    own.begin(KEY)
    own.end(KEY, [("1", "2")])
    assert own.passes(Event(type=EventType.DELETE, old=view(3)))
    assert repr(own) == "<OwnChanges: 0 running, 0 pending>"


def test_a_flood_of_events_does_not_wait() -> None:
    """During a long reconcile, at most 16 events of the object wait; with more, its request is queued at once."""
    own = OwnChanges()
    own.begin(KEY)
    assert [own.passes(update(n, n + 1)) for n in range(20)] == [False] * 16 + [True] * 4


# ------------------------------------------------------------------ with a server
@pytest.mark.parametrize("write", ["ctx.status", "update"])
async def test_one_creation_is_one_reconcile(write: str) -> None:
    """A reconciler that writes the status runs once, however it writes it."""
    operator = Operator("boxes")

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> None:
        if write == "ctx.status":
            async with ctx.status(obj) as patch:
                patch.status.size = obj.spec.size
                patch.set_condition("Ready", True, "Fits")
        elif obj.status is None or not obj.status.size:
            async with ctx.status(obj) as patch:
                patch.status.size = 3
            assert obj.status is not None
            obj.status.size = 4
            await ctx.client.status().update(obj)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(60)
        assert len(records(operator)) == 1


async def test_an_option_reconciles_own_status_writes() -> None:
    """A state machine that continues with its own status write asks for these events."""
    operator = Operator("boxes")
    sizes: list[int] = []

    @operator.reconciler(Box, options=ControllerOptions(ignore_own_status_writes=False))
    async def reconcile(obj: Box, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.status.size = min(patch.status.size + 1, 5)
            sizes.append(patch.status.size)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(60)
        assert sizes == [1, 2, 3, 4, 5, 5]


async def test_another_controller_sees_the_write() -> None:
    """Controllers of one operator that share a kind react to the status of each other."""
    operator = Operator("boxes")
    sizes: list[int] = []

    @operator.reconciler(Box, name="writer")
    async def write(obj: Box, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.status.size = 7

    @operator.reconciler(Box, name="reader")
    async def read(obj: Box) -> None:
        sizes.append(obj.status.size if obj.status else 0)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(60)
        assert sizes[-1] == 7
        assert len(records(operator)) <= 3


async def test_the_status_of_another_object_is_no_own_write() -> None:
    """A reconcile that writes the status of another object of its kind leads to a reconcile of that object."""
    operator = Operator("boxes")
    runs: list[str] = []

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> None:
        runs.append(obj.metadata.name)
        if obj.metadata.name == "a":
            other = await ctx.client.get(Box, "default/b")
            async with ctx.status(other) as patch:
                patch.status.size = 9

    async with running(operator) as client:
        await client.create(box("b"))
        await asyncio.sleep(1)
        await client.create(box("a"))
        await asyncio.sleep(60)
        assert runs == ["b", "a", "b"]


@pytest.mark.parametrize("seed", range(20))
async def test_no_foreign_change_is_lost(seed: int) -> None:
    """A change by others during a status write is read by a later reconcile."""
    operator = Operator("boxes")
    rng = random.Random(seed)
    labels: dict[str, str] = {}

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> Result | None:
        await asyncio.sleep(rng.choice([0, 0.01, 0.3]))
        async with ctx.status(obj) as patch:
            patch.status.size = rng.randrange(3)
        labels[obj.metadata.name] = (obj.metadata.labels or {}).get("n", "")
        return Result(requeue_after=30) if rng.random() < 0.1 else None

    async with running(operator) as client:
        for name in ("a", "b"):
            await client.create(box(name))
        for number in range(40):
            name = rng.choice("ab")
            await client.patch(box(name), merge_patch({"metadata": {"labels": {"n": str(number)}}}))
            if rng.random() < 0.3:
                await client.status().patch(box(name), merge_patch({"status": {"size": rng.randrange(3)}}))
            await asyncio.sleep(rng.choice([0, 0.001, 0.02, 0.5]))
        await asyncio.sleep(5)
        live = {b.metadata.name: (b.metadata.labels or {}).get("n", "") for b in await client.list(Box)}
        assert labels == live


async def test_an_added_finalizer_is_no_second_reconcile() -> None:
    """The reconcile that adds the finalizer goes on with the object that has it."""
    operator = Operator("boxes")

    async def clean_up(obj: Box, ctx: Context) -> None: ...

    @operator.reconciler(Box, finalizers={"tests.opsdk.dev/clean-up": clean_up})
    async def reconcile(obj: Box, ctx: Context) -> None:
        assert obj.metadata.finalizers == ["tests.opsdk.dev/clean-up"]
        async with ctx.status(obj) as patch:
            patch.status.size = 1

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(60)
        assert len(records(operator)) == 1
        await client.delete(box())
        await asyncio.sleep(60)
        assert await client.get_or_none(Box, "default/a") is None
