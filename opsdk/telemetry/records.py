"""Records of events inside opsdk, and the hook that receives them.

opsdk calls the hook synchronously, so a hook must not block. An operator takes several hooks.

A reconcile and a request are blocks with a begin and an end, so that a hook can trace them:

* `TelemetryHook.reconcile` is entered before the reconciler is called. `Reconciled` is recorded inside the block.
* `TelemetryHook.request` is entered before each attempt of a request. `Requested` is recorded inside the block.
* `TelemetryHook.write` is entered before the write of an object, around its attempts, if the hook follows writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from types import TracebackType
from typing import Any, ClassVar, Protocol

import msgspec

from opsdk.aio.containment import contain
from opsdk.base.cause import ReconcileCause
from opsdk.errors import RequestInfo
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = [
    "QueueHooks",
    "ReconcileOutcome",
    "ReconcileStarted",
    "Reconciled",
    "Record",
    "RequestStarted",
    "Requested",
    "TelemetryHook",
    "WriteStarted",
]

log = SafeLogger(__name__)


class ReconcileOutcome(Enum):
    """Result of a reconcile. The values are controller-runtime's label values, and ``waiting``."""

    SUCCESS = "success"
    REQUEUE = "requeue"
    REQUEUE_AFTER = "requeue_after"
    ERROR = "error"
    WAITING = "waiting"
    """A child is not ready."""
    PAUSED = "paused"
    """The object is paused, so the reconciler was not called. controller-runtime has no such value."""


class ReconcileStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A reconcile begins.

    Attributes:
        controller: the controller's name.
        group: API group of the reconciled kind.
        kind: the reconciled kind.
        namespace: of the request.
        name: of the request.
        reconcile_id: the unique id of this reconcile.
        causes: why it runs.
    """

    controller: str
    group: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    reconcile_id: str = ""
    causes: tuple[ReconcileCause, ...] = ()

    def log_fields(self) -> dict[str, str]:
        """Return the fields of log lines under controller-runtime's keys, without the empty ones.

        >>> ReconcileStarted(controller="website", kind="Website", name="site").log_fields()
        {'controller': 'website', 'controllerKind': 'Website', 'name': 'site'}
        """
        fields = {
            "controller": self.controller,
            "controllerGroup": self.group,
            "controllerKind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "reconcileID": self.reconcile_id,
        }
        return {key: value for key, value in fields.items() if value}


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """A reconcile has ended.

    Attributes:
        seconds: duration of the reconcile.
        terminal: it raised `TerminalError`, so it is not retried.
        panicked: it raised something that does not derive from ``Exception``: a native library's panic, or its own
            cancellation.
        timed_out: it exceeded ``reconciliation_timeout``.
        error: the exception that the reconciler raised, or None.
    """

    controller: str
    result: ReconcileOutcome
    seconds: float
    terminal: bool = False
    panicked: bool = False
    timed_out: bool = False
    error: BaseException | None = None


class QueueView(Protocol):
    """The present state of a work queue. Read it only to show it: a copy for each event would be most of the work."""

    def depth(self) -> Mapping[int, int]:
        """Return the number of ready items by priority."""
        ...

    def processing(self) -> Mapping[Any, float]:
        """Return the start times of the items that workers process, by the queue's clock."""
        ...


class GenerationsView(Protocol):
    """The changes of specs that a controller has not handled yet. Read it only to show it.

    Attributes:
        receivers: called with the seconds of each change that was handled: from the event with the new generation until
            ``status.observedGeneration`` shows it, or until a reconcile of it has succeeded, whichever comes first.
    """

    receivers: list[Callable[[float], None]]

    def oldest_seconds(self) -> float:
        """Return the seconds since the oldest of these changes; 0 for none."""
        ...

    def rejected_objects(self) -> int:
        """Return the number of objects without such a change whose last reconcile failed, and is not retried."""
        ...

    def __len__(self) -> int: ...


class QueueHooks:
    """Receives the events of one work queue, and does nothing with them. Override what is needed.

    Not a Protocol: a later version adds events, and a hook without a method for them must go on.

    Attributes:
        never_raises: no method raises, so nothing needs to contain its exceptions.
    """

    never_raises: ClassVar[bool] = False

    def added(self) -> None:
        """An item was queued."""

    def retried(self) -> None:
        """An item was queued again after a failure."""

    def taken(self, waited: float) -> None:
        """A worker took an item that was ready for `waited` seconds."""

    def finished(self, worked: float) -> None:
        """A worker finished an item after `worked` seconds."""


class Queued(msgspec.Struct, frozen=True, kw_only=True):
    """A work queue has changed.

    Attributes:
        event: ``added``, ``retried``, ``taken`` (ready for `seconds`) or ``finished`` (processed for `seconds`).
        queue: the queue. It has the present state, not the state at the event.
    """

    controller: str
    event: str
    queue: QueueView
    seconds: float = 0.0


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of a controller start.

    Attributes:
        limit: their number.
        queue: the queue that they work on; `QueueView.processing` has an item for each busy worker.
        generations: the changes of specs that wait for a reconcile; None for a controller without a kind.
    """

    controller: str
    limit: int
    queue: QueueView
    generations: GenerationsView | None = None


class Leadership(msgspec.Struct, frozen=True, kw_only=True):
    """This replica won or lost an election."""

    name: str
    leading: bool


class RequestStarted(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a request to an API server begins.

    Attributes:
        request: verb, resource and key.
        method: the HTTP method.
        host: name and port of the server.
    """

    request: RequestInfo
    method: str
    host: str


class WriteStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The write of an object begins. Writes that cannot carry an annotation have no such record.

    Attributes:
        verb: ``create``, ``update``, ``patch`` or ``apply``.
        group: API group of the object.
        kind: its kind.
        namespace: its namespace; empty for a cluster-scoped object.
        name: its name; empty if the server generates it.
    """

    verb: str
    group: str
    kind: str
    namespace: str = ""
    name: str = ""


class Requested(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a request to an API server has ended; for a stream: its head has arrived.

    Attributes:
        method: the HTTP method.
        host: name and port of the server.
        status: the HTTP status; 0 if no response arrived.
        seconds: duration without client-side throttling.
        request: verb, resource and key.
        throttled: seconds of client-side throttling before the attempt; None if there is no limit.
        attempt: 0 for the first attempt, 1 for the first retry.
        sent_bytes: size of the request's body.
        received_bytes: size of the response's body; None for a stream.
        error: why no response arrived, or None.
    """

    method: str
    host: str
    status: int
    seconds: float
    request: RequestInfo | None = None
    throttled: float | None = None
    attempt: int = 0
    sent_bytes: int = 0
    received_bytes: int | None = None
    error: BaseException | None = None


class RenewedSlowly(msgspec.Struct, frozen=True, kw_only=True):
    """A renewal of a lease had to read the lease first: another client had changed it."""

    name: str


class LoopStalled(msgspec.Struct, frozen=True, kw_only=True):
    """The event loop was blocked for a while, see `opsdk.aio.watchdog`.

    Attributes:
        seconds: how long, at least.
        where: task, file, line and function that blocked it.
    """

    seconds: float
    where: str


class WebhookLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook is registered, or a request of it begins or ends.

    Attributes:
        webhook: the path.
        in_flight: number of requests that are being processed.
    """

    webhook: str
    in_flight: int


class WebhookServed(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook has responded to a request.

    Attributes:
        webhook: the path.
        status: the HTTP status. Errors inside a review have the status 200.
        seconds: duration.
        panicked: ``admission`` or ``conversion`` if a function of the user raised an unexpected exception there.
    """

    webhook: str
    status: int
    seconds: float
    panicked: str = ""


class CertificateRead(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a serving certificate were read.

    Attributes:
        failed: they could not be loaded, so the old certificate stays in use.
    """

    failed: bool


class RegisteredFaults(msgspec.Struct, frozen=True, kw_only=True):
    """The faults of an object that the operator registered at the API server have changed.

    Attributes:
        object: kind and name, such as ``CustomResourceDefinition websites.demo.opsdk.dev``.
        critical: differences that the operator does not restore, and that make the replica unready.
        others: other differences.
    """

    object: str
    critical: int
    others: int


class Contended(msgspec.Struct, frozen=True, kw_only=True):
    """An apply was sent once more, because another writer had undone it again; the next one waits.

    The first four of such applies have no record: they repair single changes.

    Attributes:
        field_owner: the field manager of the apply.
        kind: the kind of the object.
    """

    field_owner: str
    kind: str


class HotLoopFound(msgspec.Struct, frozen=True, kw_only=True):
    """A request kept reconciling itself, and is now slowed, see `opsdk.controller.steps.hot_loops`.

    Attributes:
        controller: the controller's name.
        request: the request.
        description: how often and how fast, the last write and the event that it caused.
    """

    controller: str
    request: str
    description: str


class ControllerPaused(msgspec.Struct, frozen=True, kw_only=True):
    """A controller was paused as a whole, or is no longer paused.

    Attributes:
        controller: the controller's name.
        paused: it starts no reconcile.
    """

    controller: str
    paused: bool


class PausedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """An object of a controller was paused, or is no longer paused.

    Attributes:
        controller: the controller's name.
        count: number of objects whose requests wait for the end of a pause.
    """

    controller: str
    count: int


class DaemonChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon of an object started, failed or ended, see `opsdk.controller.daemons`.

    Attributes:
        controller: the controller's name.
        daemon: the daemon's name.
        event: ``started``, ``failed``, ``returned`` or ``cancelled``.
        running: daemons of this name that run or wait for their restart.
    """

    controller: str
    daemon: str
    event: str
    running: int


Record = (
    Reconciled
    | Workers
    | Queued
    | Leadership
    | RenewedSlowly
    | Requested
    | LoopStalled
    | WebhookLoad
    | WebhookServed
    | CertificateRead
    | RegisteredFaults
    | Contended
    | PausedObjects
    | ControllerPaused
    | HotLoopFound
    | DaemonChanged
)
"""What `TelemetryHook.record` receives. A later version may have more records: ignore those that you do not know."""

_NO_BLOCK: AbstractContextManager[None] = nullcontext()
NO_HEADERS: AbstractContextManager[Mapping[str, str]] = nullcontext({})
"""The block of a request that no hook follows."""


class TelemetryHook:
    """Receives records and drops them. Override `record`, and `reconcile`, `request` and `write` for tracing."""

    follows_writes: bool = False
    """Whether `write` is called, and causes name the trace contexts that events carry."""

    def record(self, record: Record) -> None:
        """Receive one record. Must not block."""

    def queue_hooks(self, controller: str, queue: QueueView) -> QueueHooks:
        """Return the receiver of the events of a controller's queue. The default passes `Queued` records to `record`.

        Override it to look up metrics once for each controller instead of once for each event.
        """
        return _QueueRecords(self, controller, queue)

    def reconcile(self, started: ReconcileStarted) -> AbstractContextManager[object]:
        """Return a block that lasts as long as the reconcile. It must not change the exception of the reconcile."""
        return _NO_BLOCK

    def request(self, started: RequestStarted) -> AbstractContextManager[Mapping[str, str]]:
        """Return a block that lasts as long as the attempt. It yields headers to send, such as ``traceparent``."""
        return NO_HEADERS

    def write(self, started: WriteStarted) -> AbstractContextManager[Mapping[str, str]]:
        """Return a block that lasts as long as the write of an object.

        It yields ``traceparent``, which becomes an annotation of the object, or nothing.
        """
        return NO_HEADERS


class _QueueRecords(QueueHooks):
    """Makes a `Queued` record of each event of a queue."""

    def __init__(self, hook: TelemetryHook, controller: str, queue: QueueView) -> None:
        self._hook = hook
        self._controller = controller
        self._queue = queue

    def _record(self, event: str, seconds: float = 0.0) -> None:
        self._hook.record(Queued(controller=self._controller, event=event, queue=self._queue, seconds=seconds))

    def added(self) -> None:
        self._record("added")

    def retried(self) -> None:
        self._record("retried")

    def taken(self, waited: float) -> None:
        self._record("taken", waited)

    def finished(self, worked: float) -> None:
        self._record("finished", worked)


_QUEUE_HOOK_RAISED = "a telemetry hook raised an error for an event of the queue of %s"


class _CombinedQueueHooks(QueueHooks):
    """Passes the events of a queue to several receivers. An exception of one is logged and does not stop the others."""

    def __init__(self, hooks: Sequence[QueueHooks], controller: str) -> None:
        self._hooks = tuple(hooks)
        self._controller = controller

    # Without a helper: each reconcile calls three of these.
    def added(self) -> None:
        for hook in self._hooks:
            try:
                hook.added()
            except BaseException as error:
                contain(error)
                log.exception(_QUEUE_HOOK_RAISED, self._controller)

    def retried(self) -> None:
        for hook in self._hooks:
            try:
                hook.retried()
            except BaseException as error:
                contain(error)
                log.exception(_QUEUE_HOOK_RAISED, self._controller)

    def taken(self, waited: float) -> None:
        for hook in self._hooks:
            try:
                hook.taken(waited)
            except BaseException as error:
                contain(error)
                log.exception(_QUEUE_HOOK_RAISED, self._controller)

    def finished(self, worked: float) -> None:
        for hook in self._hooks:
            try:
                hook.finished(worked)
            except BaseException as error:
                contain(error)
                log.exception(_QUEUE_HOOK_RAISED, self._controller)


class Hooks(TelemetryHook):
    """Combines several hooks. An exception of one hook is logged; the other hooks still get the record."""

    def __init__(self, hooks: Sequence[TelemetryHook]) -> None:
        # Without nesting: each level would cost a call for each record.
        self.hooks: tuple[TelemetryHook, ...] = tuple(
            inner for hook in hooks for inner in (hook.hooks if isinstance(hook, Hooks) else (hook,))
        )
        # Most hooks only count: blocks that do nothing are not entered.
        self._reconcile = [hook.reconcile for hook in self.hooks if _overrides(hook, "reconcile")]
        self._request = [hook.request for hook in self.hooks if _overrides(hook, "request")]
        self._write = [hook.write for hook in self.hooks if hook.follows_writes]
        self.follows_writes = bool(self._write)
        self.follows_requests = bool(self._request)
        """Whether a hook has a block for requests: without one, `RequestStarted` is not needed."""
        self.follows_reconciles = bool(self._reconcile)
        """Whether a hook has a block for reconciles: without one, `ReconcileStarted` is not needed."""

    def record(self, record: Record) -> None:
        """Pass the record to each hook."""
        for hook in self.hooks:
            try:
                hook.record(record)
            except BaseException as error:
                contain(error)
                log.exception("a telemetry hook raised an error for %s", record)

    def queue_hooks(self, controller: str, queue: QueueView) -> QueueHooks:
        """Return the receiver of all hooks that need the events."""
        hooks = (hook for hook in self.hooks if _overrides(hook, "record") or _overrides(hook, "queue_hooks"))
        receivers = [hook.queue_hooks(controller, queue) for hook in hooks]
        if len(receivers) == 1 and receivers[0].never_raises:
            return receivers[0]
        return _CombinedQueueHooks(receivers, controller)

    def reconcile(self, started: ReconcileStarted) -> AbstractContextManager[object]:
        """Enter the block of each hook."""
        return _CombinedBlocks(self._reconcile, started) if self._reconcile else _NO_BLOCK

    def request(self, started: RequestStarted) -> AbstractContextManager[Mapping[str, str]]:
        """Enter the block of each hook, and yield the headers of all."""
        return _CombinedBlocks(self._request, started) if self._request else NO_HEADERS

    def write(self, started: WriteStarted) -> AbstractContextManager[Mapping[str, str]]:
        """Enter the block of each hook that follows writes, and yield the headers of all."""
        return _CombinedBlocks(self._write, started) if self._write else NO_HEADERS


def _overrides(hook: TelemetryHook, method: str) -> bool:
    return getattr(type(hook), method) is not getattr(TelemetryHook, method)


class _CombinedBlocks(AbstractContextManager[Mapping[str, str]]):
    """The blocks of several hooks. Exceptions of hooks are logged; an exception of the block itself is not changed."""

    def __init__(self, makers: Sequence[Callable[..., AbstractContextManager[object]]], started: object) -> None:
        self._block_factories = makers
        self._started = started
        self._entered: list[AbstractContextManager[object]] = []

    def __enter__(self) -> Mapping[str, str]:
        headers: dict[str, str] = {}
        for make in self._block_factories:
            try:
                block = make(self._started)
                value = block.__enter__()
                self._entered.append(block)
                headers.update(value if isinstance(value, Mapping) else {})
            except BaseException as error:
                contain(error)
                log.exception("a telemetry hook raised an error for %s", self._started)
        return headers

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for block in reversed(self._entered):
            try:
                block.__exit__(kind, error, trace)
            except BaseException as raised:
                # ``contextlib.contextmanager`` raises the error of the block again.
                if raised is not error:
                    contain(raised)
                    log.exception("a telemetry hook raised an error at the end of %s", self._started)
