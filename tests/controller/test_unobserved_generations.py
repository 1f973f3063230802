"""The time from a change of a spec until it was handled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from boxes import Box, box, environment, running
from hypothesis import given
from hypothesis import strategies as st

from opsdk import Cluster, Context, ControllerOptions, MergeFrom, Operator, TerminalError, crd_for
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.object import deep_copy
from opsdk.cache.entry import make_entry
from opsdk.client.patch import merge_patch
from opsdk.controller.retries import RetryLimit
from opsdk.controller.steps.unobserved_generations import UnobservedGenerations, observed_generation
from opsdk.errors import InvalidError
from opsdk.event.event import AnyEvent, Event, EventType, ObjectView
from opsdk.event.predicates import generation_changed

KEY = ObjectKey("default", "a")


def view(generation: int, status: bytes = b"{}") -> ObjectView[Box]:
    """Return the box at a generation."""
    entry, _ = make_entry(
        b'{"apiVersion":"tests.opsdk.dev/v1","kind":"Box","metadata":{"namespace":"default","name":"a",'
        b'"uid":"1","resourceVersion":"1","generation":%d},"status":%s}' % (generation, status)
    )
    return ObjectView(entry, kind_of(Box))


def created(generation: int, status: bytes = b"{}", *, initial: bool = False) -> AnyEvent:
    """Return the event of a new object."""
    return Event(type=EventType.CREATE, new=view(generation, status), initial=initial)


def updated(before: int, after: int, status: bytes = b"{}") -> AnyEvent:
    """Return the event of a write."""
    return Event(type=EventType.UPDATE, old=view(before), new=view(after, status))


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def measured(*, declares: bool = False) -> tuple[UnobservedGenerations, Clock, list[float]]:
    """Return a measurement, its clock, and the seconds that it observes."""
    clock, seconds = Clock(), list[float]()
    generations = UnobservedGenerations(clock, declares=declares)
    generations.receivers.append(seconds.append)
    return generations, clock, seconds


@given(st.lists(st.tuples(st.sampled_from(["change", "begin", "succeed", "fail", "observe"]), st.integers(1, 5))))
def test_each_change_ends_with_the_first_proof_that_it_was_handled(steps: list[tuple[str, int]]) -> None:
    """A change ends when a reconcile that began after it succeeds, or when the status shows it; once."""
    generations, clock, seconds = measured()
    generation, begun, observed = 1, 0, 0
    changed_at = {1: 0.0}
    generations.passes(created(1))
    for step, wait in steps:
        clock.now += wait
        if step == "change":
            generations.passes(updated(generation, generation + 1))
            generation += 1
            changed_at[generation] = clock.now
        elif step == "begin":
            begun = generations.changes[KEY].newest if KEY in generations.changes else 0
        elif step == "succeed" and begun:
            generations.handled(KEY, begun)
            observed, begun = max(observed, begun), 0
        elif step == "fail":
            begun = 0
        elif step == "observe":
            status = b'{"observedGeneration":%d}' % generation
            generations.passes(updated(generation, generation, status))
            observed = generation
    waiting = [second for number, second in changed_at.items() if number > observed]
    assert len(generations) == bool(waiting)
    # Of the changes of an object that wait, the oldest and the newest are kept.
    assert clock.now - max(waiting, default=clock.now) <= generations.oldest_seconds()
    assert generations.oldest_seconds() <= clock.now - min(waiting, default=clock.now)
    assert len(seconds) <= len(changed_at)
    assert all(second >= 0 for second in seconds)


def test_changes_of_a_deleted_object_are_forgotten() -> None:
    """The memory is bounded by live objects, also where predicates drop deletions."""
    for forget in ("passes", "follow"):
        generations, _, seconds = measured()
        generations.passes(created(1))
        getattr(generations, forget)(Event(type=EventType.DELETE, old=view(1)))
        assert (len(generations), seconds) == (0, [])


def test_the_initial_list_counts_only_where_the_status_is_older_than_the_spec() -> None:
    """After a restart, changes of the past are unknown, unless the status says that they wait."""
    for declares, status, waiting in (
        (False, b"{}", 0),
        (True, b"{}", 1),
        (True, b'{"observedGeneration":1}', 1),
        (True, b'{"observedGeneration":2}', 0),
    ):
        generations, _, _ = measured(declares=declares)
        generations.passes(created(2, status, initial=True))
        assert len(generations) == waiting


def test_odd_statuses_observe_nothing() -> None:
    """The status is another program's: whatever it has, nothing fails."""
    for status in (b'"text"', b"[1]", b'{"observedGeneration":"2"}', b'{"observedGeneration":1.5}', b"null"):
        assert observed_generation(view(2, status).entry) == 0


def test_kinds_without_generations_are_not_measured() -> None:
    """A ConfigMap has no generation, and so no change of a spec."""
    generations, _, _ = measured()
    generations.passes(created(0))
    assert len(generations) == 0


def metric(operator: Operator, name: str) -> float:
    """Return the value of a metric of the controller ``box``."""
    text = operator.manager.metrics.expose().decode()
    return float(text.partition(f'\nopsdk_controller_{name}{{controller="box"}} ')[2].partition("\n")[0])


async def test_a_change_waits_while_its_reconcile_fails() -> None:
    """The gauge grows while the reconcile of a change fails; its end counts once, with all its time."""
    operator, broken = Operator("boxes"), True

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> None:
        if broken:
            raise ValueError("broken")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(100)
        assert metric(operator, "unobserved_generations") == 1
        assert 99 < metric(operator, "oldest_unobserved_generation_seconds") < 101
        assert metric(operator, "observed_generation_seconds_count") == 0
        broken = False
        await asyncio.sleep(400)
        assert metric(operator, "unobserved_generations") == 0
        assert metric(operator, "oldest_unobserved_generation_seconds") == 0
        assert metric(operator, "observed_generation_seconds_count") == 1
        assert metric(operator, "observed_generation_seconds_sum") > 99


async def test_the_status_ends_a_change_before_the_reconcile_does() -> None:
    """An observed generation counts while a later step still fails, also where predicates drop the status's event."""
    operator = Operator("boxes")

    @operator.reconciler(Box, predicates=[generation_changed()])
    async def reconcile(obj: Box, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.status.size = obj.spec.size
        raise ValueError("a later step fails")

    async with running(operator) as client:
        site = await client.create(box())
        await asyncio.sleep(1)
        assert metric(operator, "observed_generation_seconds_count") == 1
        before = deep_copy(site)
        site.spec.size = 2
        await client.patch(site, MergeFrom(before))
        await asyncio.sleep(1)
        assert metric(operator, "observed_generation_seconds_count") == 2
        assert metric(operator, "unobserved_generations") == 0


async def test_a_terminal_error_is_an_answer() -> None:
    """A spec that is wrong for good does not wait."""
    operator = Operator("boxes")

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> None:
        raise TerminalError("this size cannot be had")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        assert metric(operator, "unobserved_generations") == 0


def _terminal() -> Exception:
    return TerminalError("this size cannot be had")


def _invalid() -> Exception:
    return InvalidError("spec: Forbidden: updates are forbidden")


@pytest.mark.parametrize("failure", [_terminal, _invalid, OSError], ids=["terminal", "422", "retry limit"])
@pytest.mark.parametrize("end", ["mended", "deleted", "paused"])
async def test_an_object_that_is_not_retried_is_counted_until_it_is_mended(
    failure: Callable[[], Exception], end: str
) -> None:
    """The gauge counts each failed object that nothing retries, also after a restart; one that waits counts as that."""

    def make() -> Operator:
        operator = Operator("boxes")

        @operator.reconciler(Box, options=ControllerOptions(retry_limit=RetryLimit(attempts=2)))
        async def reconcile(obj: Box, ctx: Context) -> None:
            if obj.metadata.name == "bad" and obj.spec.size != 3:
                raise failure()

        return operator

    def objects(operator: Operator) -> float:
        return metric(operator, "rejected_objects") + metric(operator, "unobserved_generations")

    operator = make()
    async with running(operator) as client:
        await client.create(box())
        await client.create(box("bad"))
        await asyncio.sleep(60)
        assert objects(operator) == 1
        bad = await client.get(Box, "default/bad")
        if end == "mended":
            await client.patch(bad, merge_patch({"spec": {"size": 3}}))
        elif end == "deleted":
            await client.delete(bad)
        else:
            await client.patch(bad, merge_patch({"metadata": {"annotations": {"opsdk.dev/paused": "true"}}}))
        await asyncio.sleep(60)
        assert objects(operator) == 0


async def test_a_rejected_object_is_counted_after_a_restart() -> None:
    """The first reconcile of the new process fails too."""
    operators = []
    async with environment.Environment(crds=[crd_for(Box)]) as env, Cluster(env.config) as outside:
        await outside.uncached.create(box())
        for _ in range(2):
            operator = Operator("boxes")

            @operator.reconciler(Box)
            async def reconcile(obj: Box, ctx: Context) -> None:
                raise _terminal()

            task = asyncio.create_task(operator.start(env.config))
            await asyncio.sleep(30)
            operators.append(metric(operator, "rejected_objects"))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    assert operators == [1, 1]


async def test_a_paused_object_does_not_wait() -> None:
    """A pause is the user's: its time is not the operator's."""
    operator = Operator("boxes")

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> None:
        pass

    async with running(operator) as client:
        await client.create(box(annotations={"opsdk.dev/paused": "true"}))
        await asyncio.sleep(1)
        assert metric(operator, "unobserved_generations") == 0
        assert metric(operator, "observed_generation_seconds_count") == 0


async def test_a_controller_of_config_maps_shows_zeros() -> None:
    """Each controller with a kind has the series, so that alerts on them work."""
    operator = Operator("boxes")

    @operator.reconciler(ConfigMap, name="box")
    async def reconcile(obj: ConfigMap, ctx: Context) -> None:
        pass

    async with running(operator) as client:
        await client.create(ConfigMap(metadata=box().metadata))
        await asyncio.sleep(1)
        assert metric(operator, "observed_generation_seconds_count") == 0
