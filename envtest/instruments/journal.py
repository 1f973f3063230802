"""A bounded record of every write, with assertions about hot loops and conflicting writers.

Recording starts with the first use of the journal. Stored trees never change, so an entry refers to them; differences
are computed when they are read.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

import msgspec

from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.apiserver.endpoints.filters import NamedFilter
from opsdk.apiserver.server import Server
from opsdk.apiserver.storage.ports import ChangeType, LocalStorage, StorageChange
from opsdk.engine.writes import OWN_USERS, RESTORE, SERVER, Entry, Ref, Writer
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.identity_cache import drop_oldest
from opsdk.structured_merge.value import JsonValue

_READS = frozenset({"get", "list", "watch"})
_FILTER = "journal"


_WRITER: ContextVar[Writer] = ContextVar("writer", default=SERVER)


@contextmanager
def written_by(writer: Writer) -> Iterator[None]:
    """Attribute the writes inside the block to `writer`."""
    token = _WRITER.set(writer)
    try:
        yield
    finally:
        _WRITER.reset(token)


class StartUp(msgspec.Struct, frozen=True):
    """The start of an environment. Its writes are ignored.

    Attributes:
        revision: the revision at the end of the start.
        keys: the storage keys of the objects that existed then.
    """

    revision: int = 0
    keys: Collection[str] = frozenset()

    def contains(self, entry: Entry) -> bool:
        """Return whether a write belongs to the start: simulated controllers complete start-up objects later."""
        return entry.revision <= self.revision or (entry.writer.user in OWN_USERS and entry.key in self.keys)


class HotLoop(msgspec.Struct, frozen=True):
    """One writer that repeatedly writes one object while no other writer changes anything."""

    writer: Writer
    ref: Ref
    entries: Sequence[Entry]
    idle: int

    def __str__(self) -> str:
        count = len(self.entries)
        if not count:
            return f"{self.writer} sent {self.idle} writes of {self.ref} that changed nothing"
        first, last = self.entries[0].revision, self.entries[-1].revision
        lines = "".join(f"\n  {entry}" for entry in self.entries[:6])
        return (
            f"{self.writer} wrote {self.ref} {count} times (revisions {first} to {last}), and no other client "
            f"wrote anything:{lines}{' ...' if count > 6 else ''}"
        )


class Fight(msgspec.Struct, frozen=True):
    """Writers that overwrite one field in turns."""

    ref: Ref
    path: str
    moves: Sequence[tuple[int, Writer, JsonValue]]

    def __str__(self) -> str:
        moves = ", ".join(f"{writer} set {value!r} at {revision}" for revision, writer, value in self.moves[:6])
        return f"{self.ref}: {self.path} goes back and forth: {moves}{', ...' if len(self.moves) > 6 else ''}"


class Journal:
    """The last `limit` writes, oldest first.

    Attributes:
        count: the number of all writes, including those that were dropped.
        idle: how often each writer sent a write of an object (by its path) that changed nothing; at most `limit` pairs.
        start_up: the environment's own start, which `hot_loops` and `fights` ignore.
    """

    def __init__(self, server: Server, storage: LocalStorage, *, limit: int = 10_000) -> None:
        self.start_up = StartUp()
        self.idle: Counter[tuple[str, str]] = Counter()
        self._server = server
        self._storage = storage
        self._entries: deque[Entry] = deque(maxlen=limit)
        self._limit = limit
        self._listeners: list[Callable[[Entry], None]] = []
        self.count = 0

    def __repr__(self) -> str:
        return f"<Journal of {len(self._entries)} writes>"

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    # -------------------------------------------------------------- recording
    def start(self) -> None:
        """Start recording; idempotent."""
        self.stop()
        self._server.add_filter(NamedFilter(_FILTER, self._filter))
        self._storage.subscribe(self._record)

    def stop(self) -> None:
        """Stop recording; idempotent."""
        self._server.remove_filter(_FILTER)
        self._storage.unsubscribe(self._record)

    def subscribe(self, listener: Callable[[Entry], None]) -> None:
        """Call `listener` with each write from now on, in order. It must not block or raise."""
        self._listeners.append(listener)

    def clear(self) -> None:
        """Forget all recorded writes."""
        self._entries.clear()
        self.idle.clear()

    async def _filter(self, call: Call, handler: Handler) -> HttpResponse:
        info = call.info
        if not info.is_resource or info.verb in _READS:
            return await handler(call)
        manager = call.http.query.get("fieldManager") or call.http.header("user-agent").partition("/")[0]
        count = self.count
        with written_by(Writer(user=call.user.name, manager=manager, verb=info.verb)):
            response = await handler(call)
        if self.count == count and response.status < 300 and info.name and not call.http.query.get("dryRun"):
            key = (call.user.name, info.path)
            if key not in self.idle and len(self.idle) >= self._limit:
                drop_oldest(self.idle)
            self.idle[key] += 1
        return response

    def _record(self, change: StorageChange) -> None:
        after = change.value if change.kind is ChangeType.PUT else None
        self.count += 1
        entry = Entry(change.revision, _WRITER.get(), change.key, change.previous, after)
        self._entries.append(entry)
        for listener in self._listeners:
            listener(entry)

    # -------------------------------------------------------------- queries
    @property
    def last(self) -> int:
        """The revision of the last recorded write; 0 if there is none."""
        return self._entries[-1].revision if self._entries else 0

    def select(
        self, *, after: int = 0, user: str = "", manager: str = "", resource: str = "", namespace: str = "",
        name: str = "", verb: str = "",
    ) -> list[Entry]:  # fmt: skip
        """Return the writes that match all arguments; None matches any value."""
        return [
            e
            for e in self._entries
            if e.revision > after
            and (not user or e.writer.user == user)
            and (not manager or e.writer.manager == manager)
            and (not resource or e.ref.resource == resource)
            and (not namespace or e.ref.namespace == namespace)
            and (not name or e.ref.name == name)
            and (not verb or e.verb == verb)
        ]

    def since(self, count: int) -> list[Entry]:
        """Return the recorded writes after the first `count` writes."""
        new = self.count - count
        return list(self._entries)[-new:] if new else []

    def hot_loops(self, *, at_least: int = 3, user: str = "") -> list[HotLoop]:
        """Return writers that changed one object at least this often in a row, with no other write in between."""
        loops: list[HotLoop] = []
        for run in self._runs():
            by_ref: dict[Ref, list[Entry]] = defaultdict(list)
            for entry in run:
                if entry.verb == "update":
                    by_ref[entry.ref].append(entry)
            loops += [HotLoop(run[0].writer, ref, es, 0) for ref, es in by_ref.items() if len(es) >= at_least]
        for (name, path), count in self.idle.items():
            if count >= at_least and name not in OWN_USERS:
                parts = path.strip("/").split("/")
                group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
                namespace = ""
                if rest[0] == "namespaces" and len(rest) > 2:
                    namespace, rest = rest[1], rest[2:]
                loops.append(HotLoop(Writer(user=name), Ref(group, rest[0], namespace, "/".join(rest[1:])), (), count))
        return [loop for loop in loops if not user or loop.writer.user == user]

    def _runs(self) -> Iterator[list[Entry]]:
        """Yield the consecutive writes of each writer."""
        run: list[Entry] = []
        for entry in self._entries:
            if self.start_up.contains(entry):
                continue
            if run and (entry.writer.user, entry.writer.manager) != (run[0].writer.user, run[0].writer.manager):
                yield run
                run = []
            run.append(entry)
        if run:
            yield run

    def fights(self, *, at_least: int = 3) -> list[Fight]:
        """Return fields whose value several writers changed in turns, at least this often."""
        moves: dict[tuple[Ref, str], list[tuple[int, Writer, JsonValue]]] = defaultdict(list)
        for entry in self._entries:
            if entry.verb == "update" and not self.start_up.contains(entry):
                for change in entry.diff:
                    # A turn: a different writer wrote a different value than the last one.
                    turns = moves[entry.ref, change.path]
                    who = (entry.writer.user, entry.writer.manager)
                    if turns and (turns[-1][1].user, turns[-1][1].manager) == who:
                        turns[-1] = (entry.revision, entry.writer, change.new)
                    else:
                        turns.append((entry.revision, entry.writer, change.new))
        return [
            Fight(ref, path, moves_of_path)
            for (ref, path), moves_of_path in moves.items()
            if len(moves_of_path) >= at_least
        ]

    def assert_calm(self, *, at_least: int = 3) -> None:
        """Raise AssertionError for a hot loop or a fight."""
        problems = [*map(str, self.hot_loops(at_least=at_least)), *map(str, self.fights(at_least=at_least))]
        if problems:
            raise AssertionError("\n".join(problems))


class Budget:
    """Asserts the number of writes in a block: ``async with env.writes(max=2, user="operator")``.

    Attributes:
        entries: the writes of the block, after it.
    """

    def __init__(self, journal: Journal, most: int, *, user: str = "", resource: str = "") -> None:
        self.entries: list[Entry] = []
        self._journal = journal
        self._most = most
        self._user, self._resource = user, resource
        self._from = 0

    def __repr__(self) -> str:
        return f"<Budget of {self._most} writes>"

    async def __aenter__(self) -> Self:
        self._from = self._journal.count
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        new = self._journal.since(self._from)
        entries = [e for e in new if self._user in ("", e.writer.user) and self._resource in ("", e.ref.resource)]
        self.entries = [e for e in entries if e.verb != RESTORE.verb]
        if kind is None and len(self.entries) > self._most:
            lines = "".join(f"\n  {entry}" for entry in self.entries[:20])
            allowed = f"at most {self._most}" if self._most else "none"
            raise AssertionError(f"{len(self.entries)} writes, {allowed} allowed:{lines}")
