"""One writer for each condition, finalizer and field: the reconciler wins, and a clash of declarations is an error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from boxes import Box, box, records, running, writes

from opsdk import Client, Condition, Context, ControllerOptions, Operator, OperatorOptions, Unstructured, UsageError
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.client.patch import merge_patch
from opsdk.recipes import set_condition

UNSTRUCTURED = unstructured_kind("tests.opsdk.dev/v1", "Box")


async def by_patch(obj: Any, ctx: Context) -> None:
    """The usual way."""
    async with ctx.status(obj) as patch:
        patch.set_condition("Ready", False, "PasswordMissing", "the Secret has no password")


async def by_recipe(obj: Any, ctx: Context) -> None:
    """The function for lists of conditions, and a status update."""
    if set_condition(obj.status.conditions, "Ready", False, "PasswordMissing", observed_generation=1):
        await ctx.client.status().update(obj)


async def by_list(obj: Any, ctx: Context) -> None:
    """A new list for each pass."""
    time = obj.metadata.creation_timestamp
    async with ctx.status(obj) as patch:
        own = Condition(type="Ready", status="False", reason="PasswordMissing", last_transition_time=time)
        patch.status.conditions = [*(c for c in patch.status.conditions if c.type != "Ready"), own]


async def by_thread(obj: Any, ctx: Context) -> None:
    """In a thread, as plain reconcilers run."""
    async with ctx.status(obj) as patch:
        await asyncio.to_thread(patch.set_condition, "Ready", False, "PasswordMissing", "the Secret has no password")


async def by_dict(obj: Any, ctx: Context) -> None:
    """A class without a schema."""
    async with ctx.status(obj) as patch:
        patch.set_condition("Ready", False, "PasswordMissing", "the Secret has no password")


async def reasons(client: Client) -> dict[str, str]:
    """The reasons of the conditions of box a."""
    status = (await client.get(Box, "default/a")).status
    return {c.type: c.reason for c in status.conditions} if status is not None else {}


WAYS = [by_patch, by_recipe, by_list, by_thread, by_dict]


@pytest.mark.parametrize("set_ready", WAYS)
@pytest.mark.parametrize("other", ["", "Stalled"])
async def test_the_reconciler_wins(set_ready: Callable[[Any, Context], Awaitable[None]], other: str) -> None:
    """A condition that the reconciler sets in a pass stays, does not flap, and costs no write at rest."""
    operator = Operator("boxes")
    options = ControllerOptions(ready_condition="Ready", error_condition=other)

    async def reconcile(obj: Box, ctx: Context) -> None:
        if set_ready is by_recipe and obj.status is None:
            async with ctx.status(obj):
                return
        await set_ready(obj, ctx)

    async def reconcile_dict(obj: Unstructured, ctx: Context) -> None:
        await set_ready(obj, ctx)

    if set_ready is by_dict:
        operator.reconciler(UNSTRUCTURED, options=options)(reconcile_dict)
    else:
        operator.reconciler(Box, options=options)(reconcile)
    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        for number in range(4):
            await client.patch(box(), merge_patch({"metadata": {"labels": {"size": str(number)}}}))
            await asyncio.sleep(5)
            if number == 0:  # some ways need a status to begin with
                continue
            assert (await reasons(client))["Ready"] == "PasswordMissing"
            assert writes(records(operator)[-1]) == []


async def test_a_reconciler_that_says_nothing_leaves_the_condition_to_opsdk() -> None:
    """A later pass without the condition gets that of opsdk; another condition of the reconciler changes nothing."""
    operator = Operator("boxes")

    @operator.reconciler(Box, options=ControllerOptions(ready_condition="Ready"))
    async def reconcile(obj: Box, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.set_condition("Other", True, "Fine")
            if obj.spec.size == 1:
                patch.set_condition("Ready", False, "PasswordMissing")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        assert await reasons(client) == {"Other": "Fine", "Ready": "PasswordMissing"}
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(5)
        assert await reasons(client) == {"Other": "Fine", "Ready": "Ready"}


async def test_an_error_condition_of_the_reconciler_wins() -> None:
    """A reconciler that sets the condition for errors itself keeps it after a success and after a failure."""
    operator = Operator("boxes")
    failing = False

    @operator.reconciler(Box, options=ControllerOptions(error_condition="Stalled"))
    async def reconcile(obj: Box, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.set_condition("Stalled", True, "WaitsForUser")
        if failing:
            raise OSError("no route")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        assert await reasons(client) == {"Stalled": "WaitsForUser"}
        failing = True
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(5)
        assert await reasons(client) == {"Stalled": "WaitsForUser"}


async def test_a_daemon_writes_no_condition_of_the_operator() -> None:
    """The controller of a daemon has no part in the conditions that the options of the operator ask for."""
    options = ControllerOptions(ready_condition="Ready", error_condition="Stalled")
    operator = Operator("boxes", OperatorOptions(controller=options))

    @operator.daemon(Box)
    async def watch(obj: Box, ctx: Any) -> None:
        await asyncio.sleep(1e6)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        assert await reasons(client) == {}


async def keep(obj: Box, ctx: Context) -> None:
    """A finalizer, or a reconciler."""


CLASHES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"options": ControllerOptions(ready_condition="Ready")},
        {"options": ControllerOptions(ready_condition="Ready")},
        "one and two both write the condition 'Ready' of Box",
    ),
    (
        {"options": ControllerOptions(ready_condition="Ready")},
        {"options": ControllerOptions(error_condition="Ready")},
        "one and two both write the condition 'Ready' of Box",
    ),
    (
        {"finalizers": {"example.com/a": keep}},
        {"finalizers": {"example.com/b": keep, "example.com/a": keep}},
        "one and two both write the finalizer 'example.com/a' of Box",
    ),
]


@pytest.mark.parametrize(("first", "second", "message"), CLASHES)
def test_two_controllers_of_a_kind_do_not_share(first: dict[str, Any], second: dict[str, Any], message: str) -> None:
    """Two controllers that write one condition or one finalizer are an error with file and line."""
    operator = Operator("boxes")
    operator.reconciler(Box, name="one", **first)(keep)
    with pytest.raises(UsageError, match=message) as error:
        operator.reconciler(Box, name="two", **second)(keep)
    assert str(error.value).startswith(f"{Path(__file__)}:")
    operator.reconciler(Box, name="three")(keep)


def test_the_finalizer_of_opsdk_is_its_own() -> None:
    """A finalizer with the name of opsdk's own one for children is an error."""
    operator = Operator("boxes")
    with pytest.raises(UsageError, match="opsdk adds the finalizer"):
        operator.reconciler(
            Box,
            name="one",
            owns=[ConfigMap],
            finalizers={"opsdk.dev/boxes.one": keep},
            options=ControllerOptions(delete_in_reverse=True),
        )(keep)
