"""Boxes with daemons, finalizers, temporary errors and conditions, on two replicas, for the simulator."""

from __future__ import annotations

import asyncio

from boxes import Box, box

import envtest
from opsdk import Context, ControllerOptions, MergeFrom, Operator, OperatorOptions, RetryLimit, TemporaryError, crd_for
from opsdk.controller.daemons import DaemonSpec
from opsdk.queue.rate_limiters import ItemExponentialFailureRateLimiter
from opsdk.recipes import get_condition, is_deleting
from opsdk.testing.simulate import DEFAULT_FAULTS, Fault, Simulation, World

NAMESPACE = "default"
FINALIZER = "tests.opsdk.dev/clean-up"
# A box of this size cannot be built yet, and one of that size never.
_LATE, _IMPOSSIBLE = 3, 4

_monitored: list[str] = []
"""The uids of the boxes whose daemon runs now, in any replica."""
_problems: list[str] = []


def make_operator() -> Operator:
    """Return one replica: it writes each box's size to its status, and monitors the boxes that have one."""
    options = OperatorOptions(
        leader_election=True,
        leader_election_namespace=NAMESPACE,
        lease_duration=16,
        renew_deadline=11,
        retry_period=5,
    )
    operator = Operator("boxes", options)

    async def monitor(obj: Box, ctx: Context) -> None:
        _monitored.append(obj.metadata.uid)
        try:
            await asyncio.sleep(obj.spec.size * 20)
            raise OSError("the connection ended")
        finally:
            _monitored.remove(obj.metadata.uid)

    async def clean_up(obj: Box, ctx: Context) -> None:
        if obj.metadata.uid in _monitored:
            _problems.append(f"{obj.metadata.name} is cleaned up beside its daemon")

    controller = ControllerOptions(
        rate_limiter=ItemExponentialFailureRateLimiter(base=0.5, cap=10),
        retry_limit=RetryLimit(attempts=30),
        error_condition="Stalled",
        max_interval=300,
        shutdown_timeout=3,
    )
    spec = DaemonSpec(function=monitor, when=lambda obj: obj.spec.size > 1)

    @operator.reconciler(Box, options=controller, finalizers={FINALIZER: clean_up}, daemons=[spec])
    async def reconcile(obj: Box, ctx: Context) -> None:
        if obj.spec.size == _LATE:
            raise TemporaryError("not yet", delay=40)
        if obj.spec.size == _IMPOSSIBLE:
            raise TemporaryError("never", delay=0.1)
        async with ctx.status(obj) as patch:
            patch.status.size = obj.spec.size

    return operator


async def make_box(world: World) -> None:
    """Create a box, or change its size."""
    name = f"box-{world.rng.randrange(4)}"
    size = world.rng.randrange(5)
    obj = await world.client.get_or_none(Box, name, namespace=NAMESPACE)
    if obj is None:
        obj = box(name)
        obj.spec.size = size
        await world.client.create(obj)
    elif not is_deleting(obj):
        obj.spec.size = size
        await world.client.patch(obj, MergeFrom())


async def delete_box(world: World) -> None:
    """Delete a box."""
    if boxes := await world.client.list(Box):
        await world.client.delete(world.rng.choice(list(boxes)), missing_ok=True)


async def boxes_are_as_declared(world: World) -> None:
    """Each box has its size or its condition; exactly the boxes with a size have a daemon."""
    assert not _problems, _problems
    boxes = list(await world.client.list(Box))
    for obj in boxes:
        name, status = obj.metadata.name, obj.status
        assert not is_deleting(obj), f"{name} is not let go"
        assert status is not None, f"{name} has no status"
        stalled = get_condition(status.conditions, "Stalled")
        if obj.spec.size < _LATE:
            assert status.size == obj.spec.size, f"{name} has the size {status.size}"
            assert stalled is None or stalled.status == "False", f"{name} is stalled"
        else:
            # A change does not reset the number of attempts: it meets the limit if giving up could not be written.
            late = obj.spec.size == _LATE and stalled is not None and stalled.message.endswith("not yet")
            reasons = ("TemporaryError", "RetryLimitExceeded") if late else ("RetryLimitExceeded",)
            assert stalled is not None, f"{name} has no condition"
            assert stalled.status == "True", f"{name} has {stalled}"
            assert stalled.reason in reasons, f"{name} has {stalled}"
    assert len(set(_monitored)) == len(_monitored), "a box has two daemons"
    # A daemon that waits for its restart is not in the list.
    selected = {obj.metadata.uid for obj in boxes if obj.spec.size > 1}
    assert set(_monitored) <= selected, "a box without a daemon is monitored"


def _environment() -> envtest.Environment:
    _problems.clear()
    return envtest.Environment(crds=[crd_for(Box)])


BOXES = Simulation(
    operator=make_operator,
    environment=_environment,
    actions=[make_box, make_box, delete_box],
    check=boxes_are_as_declared,
    # A silent watch is noticed after a minute or two. Until then a new leader runs daemons of what it saw before.
    faults=[fault for fault in DEFAULT_FAULTS if fault is not Fault.BLACK_HOLE],
    replicas=2,
    settle=600,
    max_seconds=40.0,
)
