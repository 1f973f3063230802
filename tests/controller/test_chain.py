"""The chain of steps around a reconcile: what is in it, in which order, and how steps reach the queue."""

from __future__ import annotations

import asyncio
from typing import Any

import greeter
import pytest
from boxes import Box, box, environment

import secret_copier.operator as secret_copier
import website.operator as website
from application.operator import make_operator as make_application
from database.operator import make_operator as make_database
from opsdk import Cluster, Context, ControllerOptions, Operator, crd_for
from opsdk.base.cause import ReconcileCause
from opsdk.controller.daemons import DaemonSpec
from opsdk.controller.outcome import ReconcileAttempt, Requeue
from opsdk.controller.pausing import Pausing
from opsdk.controller.retries import RetryLimit
from opsdk.controller.steps.step import Proceed, ReconcilePass

_OBJECT = "HotLoopStep OwnChangesStep UnobservedGenerations Containment PauseGate"

EVERYTHING = (
    "HotLoopStep OwnChangesStep UnobservedGenerations FailureReport Containment StopDaemons PauseGate LongestInterval "
    "SuccessReport SpecRecorder FinalizerStep StartDaemons"
)


async def reconcile(obj: Box, ctx: Context) -> None:
    """Do nothing."""


async def clean_up(obj: Box, ctx: Context) -> None:
    """Do nothing."""


def chain_of(operator: Operator) -> str:
    """Return the steps of the operator's only controller."""
    [controller] = operator.controllers.values()
    return " ".join(type(step).__name__ for step in controller.chain.steps)


async def started_chain(operator: Operator, *definitions: Any) -> str:
    """Return the steps of an operator that was started."""
    async with environment.Environment(crds=definitions) as env:
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(1)
        chain = chain_of(operator)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return chain


def box_operator(**arguments: Any) -> Operator:
    """Return an operator of boxes."""
    operator = Operator("boxes")
    operator.reconciler(Box, **arguments)(reconcile)
    return operator


@pytest.mark.parametrize(
    ("arguments", "chain"),
    [
        ({}, _OBJECT),
        (
            {"options": ControllerOptions(hot_loop_limit=0, ignore_own_status_writes=False, pausing=None)},
            "UnobservedGenerations Containment",
        ),
        ({"options": ControllerOptions(max_interval=60)}, f"{_OBJECT} LongestInterval"),
        (
            {"options": ControllerOptions(retry_limit=RetryLimit(attempts=3))},
            _OBJECT.replace("Containment", "FailureReport Containment"),
        ),
        (
            {
                "finalizers": {"tests.opsdk.dev/clean-up": clean_up},
                "daemons": [DaemonSpec(function=clean_up)],
                "options": ControllerOptions(
                    error_condition="Stalled",
                    max_interval=60,
                    last_reconciled="annotation",
                    pausing=Pausing(condition="Paused"),
                ),
            },
            EVERYTHING,
        ),
    ],
    ids=["default", "nothing", "interval", "limit", "everything"],
)
async def test_what_is_not_asked_for_is_not_in_the_chain(arguments: dict[str, Any], chain: str) -> None:
    """The steps are those of the options, in one order."""
    assert await started_chain(box_operator(**arguments), crd_for(Box)) == chain


@pytest.mark.parametrize(
    ("operator", "chain"),
    [
        (lambda: greeter.operator, _OBJECT),
        (website.make_operator, f"{_OBJECT} FinalizerStep"),
        (secret_copier.make_operator, "HotLoopStep Containment"),
        (lambda: make_database(None), f"{_OBJECT} FinalizerStep"),  # type: ignore[arg-type]
        (
            lambda: make_application(None),  # type: ignore[arg-type]
            _OBJECT.replace("Containment", "FailureReport Containment") + " SuccessReport ExternalPolls FinalizerStep",
        ),
    ],
    ids=["greeter", "website", "secret-copier", "database", "application"],
)
async def test_the_chains_of_the_samples(operator: Any, chain: str) -> None:
    """Each sample has the steps that it declares."""
    assert await started_chain(operator()) == chain


class Twice:
    """A step that reconciles each object once more, and calls the rest twice."""

    def __init__(self) -> None:
        self.causes: list[str] = []

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        """See the class."""
        self.causes += [str(cause) for cause in work.ctx.causes]
        if len(self.causes) == 1:
            work.requeues.append(Requeue(cause=ReconcileCause("twice"), after=60))
            await proceed(work)
        return await proceed(work)


async def test_a_step_is_one_class() -> None:
    """It may replace the call, and the controller queues what it asks for."""
    calls, step, operator = [], Twice(), Operator("boxes")

    @operator.reconciler(Box)
    async def count(obj: Box, ctx: Context) -> None:
        calls.append(asyncio.get_running_loop().time())

    async with environment.Environment(crds=[crd_for(Box)]) as env, Cluster(env.config) as outside:
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(1)
        operator.controllers["box"].chain.observe(step)
        await outside.uncached.create(box())
        await asyncio.sleep(100)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert len(calls) == 3
    assert calls[1] == calls[0]
    assert calls[2] - calls[1] >= 60
    assert step.causes[1:] == ["twice"]
