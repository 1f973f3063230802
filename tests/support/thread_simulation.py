"""Boxes with reconcilers, finalizers and daemons in threads, and the last spec recorded, for the simulator."""

from __future__ import annotations

from collections import Counter

import msgspec
from box_simulation import FINALIZER, NAMESPACE, delete_box, make_box
from boxes import Box

import envtest
from opsdk import BlockingContext, ControllerOptions, ObjectMeta, Operator, OperatorOptions, Request, Result, crd_for
from opsdk.aio.blocking import blocking
from opsdk.api.core.v1 import ConfigMap
from opsdk.builder.arguments import WatchSpec
from opsdk.client.blocking import BlockingClient
from opsdk.controller.daemons import DaemonSpec
from opsdk.controller.steps.last_reconciled import annotation_of
from opsdk.queue.rate_limiters import ItemExponentialFailureRateLimiter
from opsdk.recipes import is_deleting
from opsdk.testing.simulate import DEFAULT_FAULTS, Fault, Simulation, World

# A box of this size takes longer than the deadline at each second attempt.
_SLOW = 4

_inside = Counter[tuple[int, str]]()
"""Threads by operator and box."""
_finished: set[tuple[str, int]] = set()
"""Uid and size of each reconcile that reached its end, in any replica."""
_monitored: list[str] = []
"""The uids of the boxes whose daemon is in a thread now, in any replica."""
_problems: list[str] = []


def make_operator() -> Operator:
    """Return one replica: it writes each box's size to its status and to a ConfigMap."""
    options = OperatorOptions(
        leader_election=True,
        leader_election_namespace=NAMESPACE,
        lease_duration=16,
        renew_deadline=11,
        retry_period=5,
    )
    operator = Operator("boxes", options)

    def monitor(obj: Box, ctx: BlockingContext) -> None:
        _monitored.append(obj.metadata.uid)
        try:
            ctx.sleep(obj.spec.size * 20)
            raise OSError("the connection ended")
        finally:
            _monitored.remove(obj.metadata.uid)

    def clean_up(obj: Box, ctx: BlockingContext) -> Result | None:
        if obj.metadata.uid in _monitored:
            _problems.append(f"{obj.metadata.name} is cleaned up beside its daemon")
        ctx.sleep(1)
        ctx.client.delete(ConfigMap, obj.metadata.name, namespace=NAMESPACE, missing_ok=True)
        return None

    @blocking(threads=2)
    def map_to_boxes(config_map: ConfigMap) -> list[Request]:
        boxes = BlockingClient(operator.client).list(Box, namespace=NAMESPACE)
        return [Request(NAMESPACE, o.metadata.name) for o in boxes if o.metadata.name == config_map.metadata.name]

    controller = ControllerOptions(
        rate_limiter=ItemExponentialFailureRateLimiter(base=0.5, cap=10),
        max_concurrent_reconciles=3,
        blocking_threads=2,
        reconciliation_timeout=6,
        shutdown_timeout=3,
        last_reconciled="annotation",
    )

    @operator.reconciler(
        Box,
        options=controller,
        daemons=[DaemonSpec(function=monitor, when=lambda obj: obj.spec.size > 1, threads=3)],
        finalizers={FINALIZER: clean_up},
        watches=[WatchSpec(kind=ConfigMap, handler=map_to_boxes)],
    )
    def reconcile(obj: Box, ctx: BlockingContext) -> None:
        thread = id(operator), obj.metadata.name
        _inside[thread] += 1
        if _inside[thread] > 1:
            _problems.append(f"{obj.metadata.name} is in {_inside[thread]} threads")
        last = ctx.last_reconciled
        if last is not None and (obj.metadata.uid, last.size) not in _finished:
            _problems.append(f"{obj.metadata.name} was never reconciled with the size {last.size}")
        if ctx.changed("spec.size") is (last is not None and last.size == obj.spec.size):
            _problems.append(f"{obj.metadata.name} changed from {last} to {obj.spec}")
        try:
            ctx.sleep(10 if obj.spec.size == _SLOW and not ctx.attempt % 2 else 0.1)
            ctx.apply(ConfigMap(metadata=ObjectMeta(name=obj.metadata.name), data={"size": str(obj.spec.size)}))
            with ctx.status(obj) as patch:
                patch.status.size = obj.spec.size
            _finished.add((obj.metadata.uid, obj.spec.size))
        finally:
            _inside[thread] -= 1

    return operator


async def boxes_are_copied(world: World) -> None:
    """Each box has its size in its status and in its ConfigMap; none waits for its finalizer."""
    assert not _problems, _problems
    maps = {c.metadata.name: c.data for c in await world.client.list(ConfigMap, namespace=NAMESPACE)}
    boxes = list(await world.client.list(Box))
    assert len(set(_monitored)) == len(_monitored), "a box has two daemons"
    # A daemon that waits for its restart, or for a thread, is not in the list.
    selected = {obj.metadata.uid for obj in boxes if obj.spec.size > 1}
    assert set(_monitored) <= selected, "a box without a daemon is monitored"
    for obj in boxes:
        name = obj.metadata.name
        assert not is_deleting(obj), f"{name} is not let go"
        assert obj.status is not None, f"{name} has no status"
        assert obj.status.size == obj.spec.size, f"{name} has the size {obj.status.size}"
        record = msgspec.json.decode(obj.metadata.annotations.get(annotation_of("box"), "{}"))
        assert record == {"size": obj.spec.size}, f"{name} has the record {record}"
        assert maps.get(name) == {"size": str(obj.spec.size)}, f"{name} has the copy {maps.get(name)}"


def _environment() -> envtest.Environment:
    _problems.clear()
    _inside.clear()
    _finished.clear()
    _monitored.clear()
    return envtest.Environment(crds=[crd_for(Box)])


THREADS = Simulation(
    operator=make_operator,
    environment=_environment,
    actions=[make_box, make_box, delete_box],
    check=boxes_are_copied,
    children=[ConfigMap],
    faults=[fault for fault in DEFAULT_FAULTS if fault is not Fault.BLACK_HOLE],
    replicas=2,
    max_seconds=40.0,
)
