"""Pauses of whole controllers, by a ConfigMap in the operator's namespace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from opsdk import Client, Cluster, Context, ObjectMeta, Operator, OperatorOptions, Request, UsageError
from opsdk.aio.clock import utc_now
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.api.events.v1 import Event
from opsdk.builder.flags import parse_flags
from opsdk.client.patch import merge_patch
from opsdk.controller.pausing import format_time
from opsdk.testing.running import running

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
effects = pytest.importorskip("envtest.testing.effects")
OPTIONS = OperatorOptions(namespace="default", pause_config_map="pauses")


def make_operator(passes: list[str], options: OperatorOptions = OPTIONS) -> Operator:
    """An operator with two controllers, of Secrets."""
    operator = Operator("keeper", options)

    async def clean(secret: Secret, ctx: Context) -> None:
        passes.append(f"cleaned {secret.metadata.name}")

    @operator.reconciler(Secret, name="first", finalizers={"tests.opsdk.dev/clean": clean})
    async def first(secret: Secret) -> None:
        passes.append(f"first {secret.metadata.name}")

    @operator.reconciler(Secret, name="second")
    async def second(request: Request) -> None:
        passes.append(f"second {request.name}")

    return operator


@asynccontextmanager
async def at_work(passes: list[str], **data: str) -> AsyncIterator[tuple[Client, Operator]]:
    """Run the operator with these data in its ConfigMap; none without data."""
    operator = make_operator(passes)
    async with environment.Environment() as env, Cluster(env.config) as outside:
        if data:
            await outside.uncached.create(pauses_of(data))
        async with running(operator, env):
            yield outside.uncached, operator


def pauses_of(data: dict[str, str]) -> ConfigMap:
    """The ConfigMap of pauses."""
    return ConfigMap(metadata=ObjectMeta(name="pauses", namespace="default"), data=data)


async def set_pause(client: Client, controller: str, value: str | None) -> None:
    """Change the ConfigMap."""
    await client.patch(pauses_of({}), merge_patch({"data": {controller: value}}))
    await asyncio.sleep(1)


async def create(client: Client, name: str) -> None:
    """Create a Secret."""
    await client.create(Secret(metadata=ObjectMeta(name=name, namespace="default")))
    await asyncio.sleep(1)


def metric(operator: Operator, controller: str) -> float:
    """Whether a controller is paused."""
    start = f'opsdk_controller_paused{{controller="{controller}"}}'
    lines = operator.manager.metrics.expose().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(start))


async def test_a_paused_controller_starts_no_reconcile_until_it_is_resumed() -> None:
    """The other controller goes on; changes become one reconcile for each object; the metric shows the pause."""
    passes: list[str] = []
    async with at_work(passes, first="true") as (client, operator):
        for name in ("a", "b"):
            await create(client, name)
        await client.delete(Secret, "default/b")
        await asyncio.sleep(3600)
        assert set(passes) == {"second a", "second b"}
        assert (metric(operator, "first"), metric(operator, "second")) == (1, 0)
        await set_pause(client, "first", None)
        assert passes.count("first a") == 1
        assert metric(operator, "first") == 0


async def test_a_pause_of_a_controller_ends_at_its_time() -> None:
    """The pause of a controller ends at its time, without an event."""
    passes: list[str] = []
    async with at_work(passes, second=format_time(utc_now() + timedelta(minutes=10))) as (client, operator):
        await create(client, "a")
        await asyncio.sleep(580)
        assert "second a" not in passes
        await asyncio.sleep(30)
        assert "second a" in passes
        assert metric(operator, "second") == 0


async def test_a_config_map_that_appears_changes_and_goes() -> None:
    """A missing ConfigMap pauses nothing; its deletion ends all pauses, also while a finalizer keeps it."""
    passes: list[str] = []
    async with at_work(passes) as (client, operator):
        await client.create(pauses_of({"first": "true", "first.reason": "moves"}))
        await asyncio.sleep(1)
        await create(client, "a")
        assert "first a" not in passes
        await set_pause(client, "first", "false")
        assert "first a" in passes
        await set_pause(client, "second", "true")
        assert metric(operator, "second") == 1
        await client.patch(pauses_of({}), merge_patch({"metadata": {"finalizers": ["example.com/x"]}}))
        await client.delete(pauses_of({}))
        await asyncio.sleep(1)
        assert metric(operator, "second") == 0


async def test_a_finalizer_waits_for_the_end_of_a_controllers_pause() -> None:
    """A paused controller runs nothing, so a deletion waits."""
    passes: list[str] = []
    async with at_work(passes) as (client, _):
        await create(client, "a")
        await client.create(pauses_of({"first": "true"}))
        await asyncio.sleep(1)
        await client.delete(Secret, "default/a")
        await asyncio.sleep(60)
        assert "cleaned a" not in passes
        await set_pause(client, "first", None)
        assert "cleaned a" in passes
        assert await client.get_or_none(Secret, "default/a") is None


async def test_values_and_names_that_are_not_understood_are_warnings() -> None:
    """The controller stays paused; Events on the ConfigMap say what to write, and which controllers there are."""
    passes: list[str] = []
    async with at_work(passes, first="yes", thrid="true") as (client, operator):
        await create(client, "a")
        assert metric(operator, "first") == 1
        await asyncio.sleep(30)
        events = {e.note or "": e for e in await client.list(Event, namespace="default") if e.reason == "InvalidPause"}
        assert sorted(events) == [
            "no controller is named thrid: this operator has first, second.",
            (
                'the value of first is "yes": write "true", "false", or the end of the pause as 2026-01-02T15:04:05Z. '
                "The controller stays paused."
            ),
        ]
        assert {e.regarding.name for e in events.values()} == {"pauses"}


async def test_an_operator_that_may_not_read_the_config_map_works() -> None:
    """Without permission for the ConfigMap, controllers start after ten seconds, and the log names it."""
    passes: list[str] = []
    operator = make_operator(passes)
    async with environment.Environment() as env, Cluster(env.config) as outside:
        env.faults.add(effects.Fail(403), resource="configmaps", verb="list")
        async with running(operator, env):
            await create(outside.uncached, "a")
            await asyncio.sleep(30)
        assert {"first a", "second a"} <= set(passes)


def test_the_config_map_needs_its_permission() -> None:
    """The option implies a permission for one name in the operator's namespace."""
    declared = [str(permission) for permission in make_operator([]).rules()]
    assert [text for text in declared if "configmaps" in text] == [
        f'{verb} configmaps named "pauses" in namespace default' for verb in ("get", "list", "watch")
    ]
    without = make_operator([], OperatorOptions()).rules()
    assert not any("configmaps" in str(permission) for permission in without)


def test_a_flag_sets_the_name() -> None:
    """The flag --pause-config-map sets the name of the ConfigMap."""
    options, _ = parse_flags("x", OperatorOptions(), ["--pause-config-map", "mine"], {})
    assert options.pause_config_map == "mine"


@pytest.mark.parametrize("value", [True, None, "two words", "UPPER", "a/b"])
def test_a_wrong_name_is_refused_at_the_declaration(value: Any) -> None:
    """The error says what to pass, with this file and line."""
    with pytest.raises(UsageError, match=r"pause_config_map is .*: pass the name of a ConfigMap") as error:
        OperatorOptions(pause_config_map=value)
    assert f"{__file__}:" in str(error.value)
