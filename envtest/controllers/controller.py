"""The runner of the simulated controllers: one key queue and one worker per controller."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from envtest.controllers.client import InProcessClient
from envtest.controllers.event_recorder import Recorder
from envtest.controllers.informers import SharedInformers
from envtest.controllers.objects import controller_of
from envtest.controllers.stages import Stage
from envtest.controllers.writes import DeleteWrite, PatchWrite, PendingEvent, Resource, Write, Writes
from envtest.data.versions import DEFAULT, VERSIONS
from opsdk.aio.clock import utc_now
from opsdk.aio.tasks import TaskOwner
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.errors import AlreadyExistsError, ApiError, ConflictError, ForbiddenError, NotFoundError
from opsdk.queue.rate_limiters import ItemExponentialFailureRateLimiter
from opsdk.queue.work_queue import ShutDownError, WorkQueue
from opsdk.structured_merge.value import JsonObject, JsonValue

_LOG = logging.getLogger("envtest.controllers")
_EXPECTED = (ConflictError, NotFoundError, AlreadyExistsError)
_LONGEST_WAIT = 30.0
"""Maximum back-off in seconds. Upstream's minutes would delay a test that repairs the cause of a failure."""


Sign = Callable[[Mapping[str, JsonValue]], str]
"""Returns the signed token of claims."""


Certify = Callable[[bytes, Sequence[str], int | None], bytes]
"""Args: a request (PEM), usages, and the lifetime in seconds. Returns the certificate (PEM)."""


def _no_certificate() -> str:
    return ""


def no_authority(_: bytes, __: Sequence[str], ___: int | None) -> bytes:
    """Return an empty certificate: a plane without a certificate authority."""
    return b""


def _no_signature(_: Mapping[str, JsonValue]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The dependencies of every controller.

    Attributes:
        kubelet: the client of the node's kubelet.
        stages: the rules for the lifecycle of pods.
        certificate: returns the CA certificates (PEM) for clients in the cluster.
        sign: signs service account tokens.
        certify: signs certificate requests.
        records_events: whether the controllers record Events.
        git_version: the version of Kubernetes that nodes show.
    """

    informers: SharedInformers
    api: InProcessClient
    kubelet: InProcessClient
    stages: Sequence[Stage] = ()
    certificate: Callable[[], str] = _no_certificate
    sign: Sign = _no_signature
    certify: Certify = no_authority
    records_events: bool = True
    git_version: str = VERSIONS[DEFAULT].git_version

    def now(self) -> datetime:
        """Return the current time."""
        return utc_now()


class SimulatedController(ABC):
    """A simulated controller; subclasses add event handlers and reconcile keys.

    Attributes:
        name: the name that enables it.
        component: the source component of its Events; empty for ``<name>-controller``.
    """

    name = ""
    component = ""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.informers = context.informers
        self.queue: WorkQueue[str] = WorkQueue(
            self.name, rate_limiter=ItemExponentialFailureRateLimiter(cap=_LONGEST_WAIT)
        )
        self.events = Recorder(context.api, self.component or f"{self.name}-controller", enabled=context.records_events)
        self.reported_error: ApiError | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.queue!r}>"

    @abstractmethod
    def add_event_handlers(self) -> None:
        """Add event handlers to the informers."""

    async def create_initial_objects(self) -> None:  # noqa: B027 - most create none
        """Create the objects that exist from the start."""

    @abstractmethod
    async def reconcile(self, key: str) -> float | None:
        """Reconcile one key; return the seconds until the next reconcile, or None."""

    def restored(self) -> None:  # noqa: B027 - most cache nothing
        """Forget cached state after the storage went back to an earlier state."""

    # -------------------------------------------------------------- for subclasses
    def add(self, change: StorageChange) -> None:
        """Enqueue the changed object."""
        self.queue.add(change.key)

    def add_controller(self, change: StorageChange, resource: Resource) -> None:
        """Enqueue the controllers that the object has and had, if they are of the kind `resource`."""
        for obj in (change.previous, change.current):
            owner = None if obj is None else controller_of(obj)
            if obj is not None and owner is not None and owner.get("kind") == resource.kind:
                self.queue.add(resource.key(obj["metadata"]["namespace"], owner["name"]))

    def add_pods_of_node(self, name: str) -> None:
        """Enqueue the pods on a node."""
        for key in self.informers.pod_keys_of_node(name):
            self.queue.add(key)

    async def write(self, writes: Writes) -> None:
        """Send writes and record Events in order; ignore missing objects of patches and deletions."""
        for write in writes:
            if isinstance(write, PendingEvent):
                await self.events.record(write)
            else:
                await self.write_one(write)

    async def write_one(self, write: Write) -> JsonObject | None:
        """Send one write and record its Event; return the object, or None if it does not exist."""
        try:
            written = await self.context.api.write(write)
        except NotFoundError:
            if not isinstance(write, DeleteWrite | PatchWrite):
                raise
            return None
        except ApiError as error:
            if write.failure_event is not None and not _is_namespace_terminating(error):
                self.reported_error = error
                await self.events.record(write.failure_event, error=error.message)
            raise
        if write.success_event is not None:
            await self.events.record(
                write.success_event, name=(written.get("metadata") or write.obj["metadata"]).get("name", "")
            )
        return written


class ObjectController(SimulatedController):
    """A controller whose keys are the objects of one kind.

    Attributes:
        resource: the kind.
    """

    resource: Resource

    def add_event_handlers(self) -> None:
        """Reconcile each object that changes; subclasses add handlers for related kinds."""
        self.informers.add_event_handler(self.resource, self.add)

    async def reconcile(self, key: str) -> float | None:
        """See `SimulatedController`; a deleted object needs no reconcile."""
        obj = self.informers.get(key)
        return None if obj is None else await self.sync(obj)

    def current(self, obj: JsonObject) -> JsonObject | None:
        """Return the present state of an object that was changed in the meantime; None if it is deleted."""
        meta = obj["metadata"]
        return self.informers.get(self.resource.key(meta.get("namespace", ""), meta["name"]))

    @abstractmethod
    async def sync(self, obj: JsonObject) -> float | None:
        """Reconcile one object; return the seconds until the next reconcile, or None."""


class Runner:
    """Runs controllers until it is closed."""

    def __init__(self, context: ControllerContext, controllers: Sequence[SimulatedController]) -> None:
        self.context = context
        self.controllers = list(controllers)
        self._tasks = TaskOwner("controllers", on_error=_report)

    def __repr__(self) -> str:
        return f"<Runner of {', '.join(c.name for c in self.controllers) or 'nothing'}>"

    async def start(self) -> None:
        """Start the informers and workers; without controllers, do nothing."""
        if not self.controllers:
            return
        for controller in self.controllers:
            controller.add_event_handlers()
        self.context.informers.start()
        for controller in self.controllers:
            await controller.create_initial_objects()
        for controller in self.controllers:
            self._tasks.start(self._work(controller), name=controller.name)

    def restored(self) -> None:
        """Let controllers drop cached state."""
        for controller in self.controllers:
            controller.restored()

    async def aclose(self) -> None:
        """Stop; idempotent."""
        for controller in self.controllers:
            controller.queue.shut_down()
        self.context.informers.stop()
        await self._tasks.aclose()

    async def _work(self, controller: SimulatedController) -> None:
        """Reconcile the controller's keys one after the other. A failed one is retried with a backoff."""
        while True:
            try:
                key = (await controller.queue.get()).item
            except ShutDownError:
                return
            try:
                queue = controller.queue
                try:
                    after = await controller.reconcile(key)
                except ApiError as error:
                    wait = queue.add_rate_limited(key)
                    expected = (
                        isinstance(error, _EXPECTED)
                        or _is_namespace_terminating(error)
                        or error is controller.reported_error
                    )
                    level = logging.DEBUG if expected else logging.WARNING
                    _LOG.log(level, "%s: %s: %r; retrying in %.3f s", controller.name, key, error, wait)
                except Exception:  # noqa: BLE001 - logged and retried; one bad object must not stop the cluster
                    wait = queue.add_rate_limited(key)
                    _LOG.exception("%s: %s; retrying in %.3f s", controller.name, key, wait)
                else:
                    queue.forget(key)
                    if after is not None:
                        queue.add(key, after=after)
            finally:
                controller.queue.done(key)
            # In-process requests rarely suspend: yield to other tasks.
            await asyncio.sleep(0)


def _is_namespace_terminating(error: ApiError) -> bool:
    """Whether the write failed because the namespace is terminating."""
    causes = error.details.causes if isinstance(error, ForbiddenError) else ()
    return any(c.reason == "NamespaceTerminating" for c in causes)


def _report(name: str, error: BaseException) -> None:
    _LOG.error("%s ended", name, exc_info=error)
