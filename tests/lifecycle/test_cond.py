"""Cond: one condition of typed and unstructured objects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import field

from opsdk import Condition, GroupVersionKind, Model, Object, ObjectMeta, Unstructured
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.object import deep_copy, to_dict
from opsdk.errors import ConflictError, UsageError
from opsdk.lifecycle.cond import Cond
from opsdk.lifecycle.errors import IgnoreError

READY = Cond("Ready")


class Status(Model):
    """A status with conditions."""

    conditions: list[Condition] = field(default_factory=list)


class Site(Object[None, Status]):
    """A typed kind."""

    gvk = GroupVersionKind("cond.opsdk.dev", "v1", "Site")


def typed() -> Site:
    """Return a typed object without a status."""
    return Site(metadata=ObjectMeta(name="a", generation=3), spec=None)


def untyped() -> Unstructured:
    """Return an unstructured object without a status."""
    meta = {"name": "a", "generation": 3}
    return Unstructured.from_tree({"apiVersion": "cond.opsdk.dev/v1", "kind": "Site", "metadata": meta, "status": None})


both = pytest.mark.parametrize("make", [typed, untyped])


@both
async def test_the_three_states(make: Any) -> None:
    """Exactly one of True, False and Unknown holds; for a missing condition none does."""
    obj = make()
    assert (READY.is_true(obj), READY.is_false(obj), READY.is_unknown(obj), READY.status(obj)) == (*[False] * 3, "")
    for change, states in (
        (READY.true, (True, False, False)),
        (READY.false, (False, True, False)),
        (READY.unknown, (False, False, True)),
    ):
        assert change(obj, message="text")
        assert not change(obj, message="text")
        assert (READY.is_true(obj), READY.is_false(obj), READY.is_unknown(obj)) == states
    assert READY.message(obj) == "text"
    (condition,) = to_dict(obj)["status"]["conditions"]
    assert (condition["observedGeneration"], condition["reason"]) == (3, "Pending")


@both
async def test_timestamps_change_only_with_the_condition(make: Any) -> None:
    """Norman keeps the timestamp of a condition when a new message or an equal value is set."""
    obj = make()
    READY.true(obj)
    first = READY.last_updated(obj)
    await asyncio.sleep(100)
    assert not READY.true(obj)
    assert READY.true(obj, message="more")
    assert READY.last_updated(obj) == first
    READY.false(obj)
    assert READY.last_updated(obj) > first


async def test_other_condition_types_are_kept() -> None:
    """A class with `lastUpdateTime` gets it at each change; other conditions and unknown fields stay."""
    deployment = Deployment(metadata=ObjectMeta(name="a"))
    cond = Cond("Progressing")
    cond.true(deployment)
    first = cond.last_updated(deployment)
    await asyncio.sleep(10)
    cond.true(deployment, message="more")
    assert deployment.status is not None
    assert deployment.status.conditions[0].last_update_time > deployment.status.conditions[0].last_transition_time
    assert first is None or cond.last_updated(deployment) > first
    obj = untyped()
    other = {"type": "Other", "status": "True"}
    obj.content["status"] = {"conditions": [other, {"type": "Ready", "lastUpdateTime": "", "x": 1}]}
    READY.true(obj)
    assert obj.content["status"]["conditions"][0] == other
    ready = obj.content["status"]["conditions"][1]
    assert (ready["x"], ready["lastUpdateTime"]) == (1, ready["lastTransitionTime"])


@both
async def test_do_sets_the_outcome(make: Any) -> None:
    """Norman condition.Cond: an error sets False with its message; a conflict and an IgnoreError leave it untouched."""
    obj = make()

    async def run(error: Exception | None) -> Any:
        async def step(obj: Any) -> None:
            if error is not None:
                raise error

        return await READY.do(obj, step)

    with pytest.raises(KeyError):
        await run(KeyError("zone"))
    assert READY.is_false(obj)
    assert READY.message(obj) == "KeyError: 'zone'"
    before = to_dict(obj)
    for error in (ConflictError("modified"), IgnoreError("later")):
        with pytest.raises(type(error)):
            await run(error)
        assert to_dict(obj) == before
    assert await run(None) is obj
    assert READY.is_true(obj)
    assert (READY.reason(obj), READY.message(obj)) == ("Succeeded", "")


@both
async def test_once_and_do_until_true(make: Any) -> None:
    """Norman condition.Cond: do_until_true stops at True; once stops at False with an error that is not retried."""
    calls: list[int] = []
    obj = make()

    async def step(obj: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("once")

    with pytest.raises(ValueError, match="once"):
        await READY.once(obj, step)
    with pytest.raises(IgnoreError, match=r"once\(\) does not retry: ValueError: once"):
        await READY.once(obj, step)
    await READY.do_until_true(obj, step)
    await READY.do_until_true(obj, step)
    await READY.once(obj, step)
    assert len(calls) == 2


@both
async def test_create_unknown_if_not_exists(make: Any) -> None:
    """Norman condition.Cond: Unknown is added once, and replaces nothing."""
    obj = make()
    assert READY.create_unknown_if_not_exists(obj)
    assert READY.is_unknown(obj)
    READY.true(obj)
    assert not READY.create_unknown_if_not_exists(obj)
    assert READY.is_true(obj)


async def test_track_writes_the_condition(world: Any) -> None:
    """Norman condition.Cond, Track: the status is written when it changed, also if the step raises, and only then."""
    site = await world.site()

    async def fails(obj: Any) -> None:
        obj.status = obj.status
        raise ValueError("broken")

    async def works(obj: Any) -> None:
        obj.status.size = 4

    with pytest.raises(ValueError, match="broken"):
        await READY.track(world.user, site, fails)
    live = await world.user.get(type(site), "default/a")
    assert READY.is_false(live)
    await READY.track(world.user, site, works)
    live = await world.user.get(type(site), "default/a")
    assert (READY.is_true(live), live.status.size) == (True, 4)
    async with world.env.no_writes():
        await READY.track(world.user, deep_copy(live), works)


def test_kinds_without_conditions_are_refused() -> None:
    """Bad input: a kind without a status, or without conditions, is named."""

    class Bare(Object[None, Model]):
        gvk = GroupVersionKind("cond.opsdk.dev", "v1", "Bare")

    with pytest.raises(UsageError, match="ConfigMap has no status"):
        READY.true(ConfigMap(metadata=ObjectMeta(name="a")))
    with pytest.raises(UsageError, match="has no list of conditions"):
        READY.true(Bare(spec=None))
