"""Rows of a controller on the debug pages: its queue, what runs now, and what waits for a retry.

They are read from the live queue when a page is requested, so they cost nothing before. Pages and the time for them are
bounded: of a long queue, only the oldest items are looked at.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any

import msgspec

from opsdk.aio.clock import monotonic
from opsdk.aio.task_stacks import author_frame, await_stack, waits_for
from opsdk.aio.watchdog import thread_frames
from opsdk.base.cause import ReconcileCause
from opsdk.controller.context import request_key
from opsdk.controller.pausing import Pause
from opsdk.controller.steps.hot_loops import HotLoops
from opsdk.queue.core import QueuedItem
from opsdk.queue.work_queue import WorkQueue

# Queued items that one page looks at. 10,000 take about 10 ms.
_MAX_ITEMS = 10_000
# Rows of one controller.
_MAX_FLOWS = 20
_MAX_RETRIES = 50
_MAX_HOT_LOOPS = 10
_MAX_RUNNING = 200
# The source of the cause that `RequeuePolicy` adds after a failure.
_RETRY = "retry"
# Characters of a flow, which is any value of the author's.
_MAX_FLOW = 100


class DebugView(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows of a controller are made of.

    Attributes:
        name: of the controller; `cluster` and `kind` likewise.
        queue: its queue, which has the present state.
        state: its state in a word.
        pause: its pause, or None.
        limit: number of workers.
        problems: why it does not follow all its sources now.
        failing_functions: the functions of its sources that raise now, in words.
        hot_loops: the requests that reconcile themselves now.
    """

    name: str
    cluster: str
    kind: str
    queue: WorkQueue[Any]
    state: str
    pause: Pause | None
    limit: int
    problems: Sequence[str]
    failing_functions: Sequence[str]
    hot_loops: HotLoops


def queue_rows(controller: DebugView) -> Iterable[object]:
    """Return the one row of the page ``controllers``: the state, and what waits, by priority and flow."""
    core, now = controller.queue.core, monotonic()
    items = core.items(_MAX_ITEMS)
    ready = [item for item in items if item.ready]
    flows = core.flow_depth()
    by_flow = Counter(flows if flows is not None else _namespaces(ready))
    yield {
        "controller": controller.name,
        "cluster": controller.cluster,
        "kind": controller.kind,
        "state": controller.state,
        "standby": controller.queue.standby,
        "paused": _pause_text(controller),
        "ready": len(core),
        "delayed": core.size() - len(core),
        "oldest_ready_seconds": max((now - item.ready_at for item in ready), default=0.0),
        "retrying": sum(1 for item in items if _retry_cause(item) is not None),
        "fair": flows is not None,
        "flows": [
            {"priority": priority, "flow": str(flow)[:_MAX_FLOW], "ready": count}
            for (priority, flow), count in by_flow.most_common(_MAX_FLOWS)
        ],
        "more_flows": max(len(by_flow) - _MAX_FLOWS, 0),
        "workers": {"active": len(core.processing()), "limit": controller.limit},
        "problems": controller.problems,
        "failing_functions": controller.failing_functions,
        "hot_loops": controller.hot_loops.descriptions(_MAX_HOT_LOOPS),
    }


def running_rows(controller: DebugView, workers: Collection[asyncio.Task[None]]) -> Iterable[object]:
    """Return a row of the page ``running`` for each reconcile that runs, the longest first."""
    now = monotonic()
    tasks = {task.get_name(): task for task in workers if not task.done()}
    threads = {thread.name: thread.ident for thread in threading.enumerate()}
    started = sorted(controller.queue.core.processing().items(), key=lambda pair: pair[1])
    for item, began in started[:_MAX_RUNNING]:
        name = f"{controller.name}/reconcile {item}"  # as the worker names its task
        task, thread = tasks.get(name), threads.get(name)
        frames = await_stack(task.get_coro()) if task is not None else []
        if thread is not None:
            # A plain function runs in a thread that has the name of its task.
            frames += thread_frames(thread)
        yield {
            **_key(controller, item),
            "seconds": now - began,
            "attempt": _attempts(controller, item),
            "place": author_frame(frames),
            "waits_for": waits_for(task) if task is not None and thread is None else "",
            "stack": frames,
        }


def retry_rows(controller: DebugView) -> Iterable[object]:
    """Return a row of the page ``retries`` for each request that failed and waits, most attempts first."""
    now = monotonic()
    failed = [
        (_attempts(controller, item.item), item, cause)
        for item in controller.queue.core.items(_MAX_ITEMS)
        if (cause := _retry_cause(item)) is not None
    ]
    failed.sort(key=lambda row: -row[0])
    for attempts, item, cause in failed[:_MAX_RETRIES]:
        yield {
            **_key(controller, item.item),
            "attempts": attempts,
            "due_seconds": max(item.ready_at - now, 0.0),
            "priority": item.priority,
            "error": cause.detail,
            "causes": [str(cause) for cause in item.causes],
        }


def _retry_cause(item: QueuedItem[Any]) -> ReconcileCause | None:
    """Return the failure that an item waits for; None for one that did not fail, such as one that was requeued."""
    return next((cause for cause in reversed(item.causes) if cause.source == _RETRY), None)


def _key(controller: DebugView, item: Hashable) -> dict[str, object]:
    namespace, name = request_key(item)
    return {
        "controller": controller.name,
        "cluster": controller.cluster,
        "kind": controller.kind,
        "namespace": namespace,
        "name": name,
    }


def _attempts(controller: DebugView, item: Any) -> int:
    return controller.queue.rate_limiter.num_requeues(item)


def _namespaces(items: Iterable[QueuedItem[Any]]) -> Counter[tuple[int, Hashable]]:
    return Counter((item.priority, getattr(item.item, "namespace", "")) for item in items)


def _pause_text(controller: DebugView) -> str:
    """Return the pause in words; empty if the controller is not paused."""
    if not controller.queue.core.paused:
        return ""
    return str(controller.pause or "paused")
