"""The reflector and the store of one informer beside a server, for an exhaustive search.

The machine carries out the reflector's actions as `opsdk.cache.informer` does, but each request and each response is an
operation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from opsdk.apimachinery.meta import ListMeta
from opsdk.cache.own_writes import OwnWrites
from opsdk.cache.reflector import (
    Action,
    CheckRevision,
    ListPage,
    Reflector,
    ReflectorStep,
    Wait,
    WatchFrom,
)
from opsdk.cache.store import Delta, DeltaType, InformerStore
from opsdk.errors import ConnectError, ConnectionLostError, GoneError, OpsdkError
from tests.cache.revision_server import Commit, RevisionServer

_MINUTES = 400.0


class CacheBounds(NamedTuple):
    """What may happen in a search.

    Attributes:
        own: names that this process writes.
        foreign: names that other clients write.
        commits: how many writes are sent.
        faults: how often a connection breaks, a response is lost, or the history expires.
        restores: how often the server goes back.
        page_size: objects for each page of a list.
        watch_list: lists are streaming lists.
        unconditional: own updates send no resource version.
    """

    own: str = "a"
    foreign: str = "ab"
    commits: int = 3
    faults: int = 1
    restores: int = 0
    page_size: int = 500
    watch_list: bool = False
    unconditional: bool = False


class NoBackoff:
    """A backoff without random numbers: the machine does not measure time."""

    tries = 0
    last = None

    def start(self) -> NoBackoff:
        """Return the state."""
        return self

    def next(self, now: float) -> float:
        """Return the delay."""
        return 1.0

    def reset(self) -> None:
        """Begin again."""


class StartedList(NamedTuple):
    """A list of pages, or a check, from its request to its response.

    Attributes:
        action: what the reflector wants.
        taken: revision and objects, if the server has handled the request.
        newest: for a check: the newest object of the store.
    """

    action: ListPage | CheckRevision
    taken: tuple[int, tuple[Commit, ...]] | None = None
    newest: Any = None


class OpenWatch(NamedTuple):
    """A watch.

    Attributes:
        cursor: the resource version after which it sends.
        initial: the rest of a streaming list.
        in_list: the end of the streaming list has not been sent.
    """

    cursor: int
    initial: tuple[Commit, ...] = ()
    in_list: bool = False


class ReflectorMachine:
    """A reflector, its store, a handler and a server."""

    own_writes_class: type[OwnWrites] = OwnWrites
    reflector_class: type[Reflector] = Reflector

    def __init__(self, bounds: CacheBounds) -> None:
        self.bounds = bounds
        self.commits, self.faults, self.restores = bounds.commits, bounds.faults, bounds.restores
        self.server = RevisionServer()
        self.store = InformerStore()
        self.store.own = self.own_writes_class()
        backoff: Any = NoBackoff()
        self.reflector = self.reflector_class(
            self.store, page_size=bounds.page_size, watch_list=bounds.watch_list, backoff=backoff
        )
        self.action: Action | None = self.reflector.start()
        self.list: StartedList | None = None
        self.watch: OpenWatch | None = None
        self.rollback = ""
        self.shown: dict[str, tuple[str, str]] = {}
        """What the deltas have told a handler: uid and resource version."""

    # -------------------------------------------------------------- operations
    def operations(self) -> Mapping[str, Callable[[], None]]:
        """All that can happen now."""
        steps = {**self._server_steps(), **self._reflector_steps()}
        if self.faults:
            steps |= {name: partial(self._fault, fault) for name, fault in self.fault_steps().items()}
        return steps

    def _server_steps(self) -> dict[str, Callable[[], None]]:
        steps: dict[str, Callable[[], None]] = {}
        if self.commits:
            for name in self.bounds.foreign:
                steps[f"put {name}"] = partial(self.commit, "put", name)
                if name in self.server.objects:
                    steps[f"delete {name}"] = partial(self.commit, "delete", name)
        if self.restores:
            for back in range(1, len(self.server.snapshots)):
                steps[f"restore {back}"] = partial(self.restore, back)
        return steps

    def _reflector_steps(self) -> dict[str, Callable[[], None]]:
        if self.watch is not None:
            if self.watch.in_list or self.server.events_after(self.watch.cursor):
                return {"event": self.event}
            return {"bookmark": self.bookmark} if self.watch.cursor <= self.server.revision else {}
        if self.list is None:
            return {f"begin {type(self.next_action()).__name__}": self.begin}
        if self.list.taken is None:
            return {"the list is taken": self.take, "the list ends": self.end_list}
        return {"the list ends": self.end_list}

    def fault_steps(self) -> dict[str, Callable[[], None]]:
        """Return what can go wrong now."""
        faults: dict[str, Callable[[], None]] = {}
        if self.watch is not None:
            faults["the watch breaks"] = partial(self.end_watch, ConnectionLostError("broken"))
            faults["the watch expires"] = partial(self.end_watch, GoneError("expired"))
            faults["the watch ends"] = partial(self.end_watch, None)
        elif self.list is not None:
            faults["the list fails"] = partial(self.fail_list, ConnectionLostError("broken"))
            if isinstance(self.list.action, ListPage) and self.list.action.continue_token:
                faults["the page expires"] = partial(self.fail_list, GoneError("expired"))
        else:
            faults["the server refuses"] = self.refuse
        if self.server.compacted < self.server.revision:
            faults["compact"] = self.server.compact
        return faults

    def _fault(self, fault: Callable[[], None]) -> None:
        self.faults -= 1
        fault()

    # -------------------------------------------------------------- the server
    def commit(self, verb: str, name: str) -> None:
        """Another client writes."""
        self.commits -= 1
        getattr(self.server, verb)(name)

    def restore(self, back: int) -> None:
        """The server goes down, and comes back with an older state. Connections break, and a request is refused."""
        self.restores -= 1
        self.server.restore(back)
        lost = ConnectionLostError("down")
        if self.watch is not None:
            self.end_watch(lost)
        elif self.list is not None:
            self.fail_list(lost)
        elif not isinstance(self.action, Wait):
            self.refuse()

    # -------------------------------------------------------------- the reflector
    def next_action(self) -> Action:
        """Return what the reflector does next, after its wait."""
        action = self.action
        assert action is not None
        return action.then if isinstance(action, Wait) else action

    def begin(self) -> None:
        """Carry out the reflector's next action."""
        action, self.action = self.action, None
        if isinstance(action, Wait):
            action = self.reflector.after_wait(action.then)
        if isinstance(action, WatchFrom):
            self.open_watch(action)
            return
        assert isinstance(action, ListPage | CheckRevision)
        newest = None
        if not (isinstance(action, ListPage) and action.continue_token):
            self.reflector.on_list_start()
        if isinstance(action, CheckRevision):
            newest = self.store.newest_entry()
        else:
            self.rollback = ""
        self.list = StartedList(action, newest=newest)

    def open_watch(self, action: WatchFrom) -> None:
        """Open a watch, or a streaming list."""
        if action.initial_events:
            self.reflector.on_list_start()
        self.reflector.on_watch_start()
        server = self.server
        if not action.initial_events and int(action.resource_version) < server.compacted:
            self.reflector.on_watch_open(0.0)
            self.apply(self.reflector.on_watch_error(GoneError("expired"), now=0.0))
            return
        self.reflector.on_watch_open(0.0)
        if action.initial_events:
            self.rollback = ""
            self.watch = OpenWatch(server.revision, tuple(server.objects.values()), in_list=True)
        else:
            self.watch = OpenWatch(int(action.resource_version))
            self.follow_rollback()

    def refuse(self) -> None:
        """The server refuses the connection of the next action."""
        action = self.next_action()
        if isinstance(self.action, Wait):
            self.reflector.after_wait(self.action.then)
        error = ConnectError("refused")
        if isinstance(action, WatchFrom):
            if action.initial_events:
                self.reflector.on_list_start()
            self.reflector.on_watch_start()
            self.apply(self.reflector.on_watch_error(error, now=0.0))
            return
        if not (isinstance(action, ListPage) and action.continue_token):
            self.reflector.on_list_start()
        self.list = StartedList(action)  # type: ignore[arg-type] # `next_action` returns no Wait
        self.fail_list(error)

    def take(self) -> None:
        """The server handles the list or the check."""
        started = self.list
        assert started is not None
        self.list = started._replace(taken=(self.server.revision, tuple(self.server.objects.values())))

    def end_list(self) -> None:
        """The response to a list or a check arrives."""
        if self.list is not None and self.list.taken is None:
            self.take()
        started, self.list = self.list, None
        assert started is not None
        assert started.taken is not None
        revision, objects = started.taken
        meta = ListMeta(resource_version=str(revision))
        if isinstance(started.action, CheckRevision):
            self.apply(self.reflector.on_checked(meta, started.newest, self.version_on_server(started.newest)))
            return
        page = started.action
        first, limit = int(page.continue_token or 0), page.limit or len(objects)
        self.reflector.on_items([commit.data for commit in objects[first : first + limit]])
        if first + limit < len(objects):
            meta = ListMeta(resource_version=str(revision), continue_token=str(first + limit))
            step = self.reflector.on_page(meta)
            self.action = None
            assert isinstance(step.next, ListPage)
            self.list = StartedList(step.next, taken=started.taken)
            return
        self.apply(self.reflector.on_page(meta))

    def version_on_server(self, newest: Any) -> str:
        """Return the resource version of an object on the server."""
        commit = self.server.objects.get(newest.key.name) if newest is not None else None
        return "" if commit is None else str(commit.revision)

    def fail_list(self, error: OpsdkError) -> None:
        """A list or a check fails."""
        started, self.list = self.list, None
        assert started is not None
        if isinstance(started.action, CheckRevision):
            self.apply(self.reflector.on_check_error(error, now=0.0))
        else:
            self.apply(self.reflector.on_list_error(error, page=started.action, now=0.0))

    def event(self) -> None:
        """The watch sends the next object, or the end of a streaming list."""
        watch = self.watch
        assert watch is not None
        if watch.initial:
            self.watch = watch._replace(initial=watch.initial[1:])
            self.apply(self.reflector.on_event("ADDED", watch.initial[0].data, now=0.0))
        elif watch.in_list:
            self.watch = watch._replace(in_list=False)
            annotations = {"k8s.io/initial-events-end": "true"}
            self.bookmark_at(watch.cursor, annotations)
            self.follow_rollback()
        else:
            commit = self.server.events_after(watch.cursor)[0]
            self.watch = watch._replace(cursor=commit.revision)
            self.apply(self.reflector.on_event(commit.type, commit.data, now=0.0))

    def bookmark(self) -> None:
        """The watch sends a bookmark: it has sent everything."""
        assert self.watch is not None
        self.watch = self.watch._replace(cursor=self.server.revision)
        self.bookmark_at(self.server.revision)

    def bookmark_at(self, revision: int, annotations: dict[str, str] | None = None) -> None:
        """Pass a bookmark to the reflector."""
        metadata = {"resourceVersion": str(revision), "annotations": annotations or {}}
        data = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        self.apply(self.reflector.on_event("BOOKMARK", data, now=0.0))

    def end_watch(self, error: OpsdkError | None) -> None:
        """The watch ends: with an error, or after minutes without one."""
        self.watch = None
        if error is None:
            self.apply(self.reflector.on_watch_closed(now=_MINUTES))
        else:
            self.apply(self.reflector.on_watch_error(error, now=_MINUTES))

    def on_rollback(self, resource_version: str) -> None:
        """A response is older than what was seen before, as `Informer.on_rollback`."""
        self.rollback = self.rollback or resource_version

    def follow_rollback(self) -> None:
        """End a watch that is open, as `Informer.on_rollback`."""
        if self.rollback and self.watch is not None and not self.watch.in_list:
            self.watch = None
            self.apply(self.reflector.on_rollback(self.rollback, now=0.0))

    def oldest_needed(self) -> int:
        """Return the resource version after which the history still makes a difference."""
        needed = [int(self.reflector.resource_version or 0)]
        if self.watch is not None:
            needed.append(self.watch.cursor)
        if self.list is not None and self.list.taken is not None:
            needed.append(self.list.taken[0])
        return min(needed)

    def apply(self, step: ReflectorStep) -> None:
        """Deliver deltas, and keep the next action."""
        assert not step.problems
        for delta in step.deltas:
            self.deliver(delta)
        for deltas in step.replaced or ():
            for delta in deltas:
                self.deliver(delta)
        self.store.own.shown_own_changes.clear()
        if step.next is not None:
            self.watch, self.action = None, step.next

    def deliver(self, delta: Delta) -> None:
        """A handler gets a delta: it must follow from what the handler was told before."""
        name, entry = delta.entry.key.name, delta.entry
        before = self.shown.get(name)
        if delta.change is DeltaType.DELETED:
            assert before is None or before[0] == entry.uid, f"{name} is deleted with another uid"
            self.shown.pop(name, None)
            return
        if delta.change is DeltaType.ADDED:
            assert before is None, f"{name} is added twice"
        else:
            assert before is not None, f"{name} is updated, and was never added"
            assert before[0] == entry.uid, f"{name} is updated to another uid"
        if delta.own:
            commit = self.server.commits[int(entry.resource_version)]
            alone = commit.own and str(commit.before) == (before[1] if before is not None else "0")
            assert alone, f"the change of {name} to {entry.resource_version} is called an own one"
        self.shown[name] = (entry.uid, entry.resource_version)
