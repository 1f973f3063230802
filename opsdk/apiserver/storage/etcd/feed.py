"""Converts the responses of one etcd watch to the changes of one bucket. Pure.

A feed records the revision up to which it is complete, so a broken watch resumes after it: no change is lost or
repeated. Watches that start in the past read its history instead of another etcd watch.

Upstream: k8s.io/apiserver/pkg/storage/etcd3/watcher.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from opsdk.apiserver.storage.etcd.messages import EVENT_PUT
from opsdk.apiserver.storage.etcd.values import decode
from opsdk.apiserver.storage.history import History, HistoryBudget, put, removal
from opsdk.apiserver.storage.objects import with_revision
from opsdk.apiserver.storage.ports import CompactedError, StorageChange
from opsdk.apiserver.storage.watch import QueueWatch


class Feed:
    """The changes of one bucket after `revision`, for all its readers.

    Attributes:
        seen: the revision up to which the feed is complete.
        watches: the readers.
    """

    def __init__(
        self,
        bucket: str,
        revision: int,
        *,
        prefix: str,
        history_limit: int,
        watch_limit: int,
        budget: HistoryBudget | None = None,
    ) -> None:
        self.bucket = bucket
        self.seen = revision
        self.watches: dict[QueueWatch, None] = {}
        self._prefix = prefix
        self._history = History(floor=revision, limit=history_limit, budget=budget)
        self._history.on_evict = self._end_late_watches
        self._watch_limit = watch_limit
        self._fragments: list[Any] = []
        self._successor: Feed | None = None

    def __repr__(self) -> str:
        return f"<Feed of {self.bucket} at {self.seen}: {len(self.watches)} watches>"

    @property
    def floor(self) -> int:
        """The oldest revision at which a watch can start here."""
        return self._history.floor

    def attach(self, prefix: str, since: int, on_close: Callable[[QueueWatch], None]) -> QueueWatch:
        """Return a new reader of the changes below `prefix` after `since`, which is at least `floor`."""
        backlog = [change for change in self._history.since(since) if change.key.startswith(prefix)]
        watch = QueueWatch(
            prefix,
            backlog,
            limit=self._watch_limit,
            after=since,
            current=self.progress,
            on_close=on_close,
        )
        self.watches[watch] = None
        return watch

    def resume(self) -> None:
        """Start with the responses of a new connection, and drop fragments of an incomplete response."""
        self._fragments = []

    def take(self, response: Any) -> None:
        """Pass the changes of a response to the readers. Raises `CompactedError` if the watch cannot continue."""
        if response.compact_revision:
            raise CompactedError(self.seen, response.compact_revision)
        revision: int = response.header.revision
        self._fragments.extend(response.events)
        if response.fragment:
            return
        events, self._fragments = self._fragments, []
        for change in self._changes(events):
            for watch in tuple(self.watches):
                if change.key.startswith(watch.prefix):
                    watch.offer(change)
            self._history.append(change)
        if events:
            self.seen = max(self.seen, events[-1].kv.mod_revision)
        elif not response.created:
            self.seen = max(self.seen, revision)  # a progress response: etcd has sent all changes up to this revision

    def _changes(self, events: Iterable[Any]) -> Iterable[StorageChange]:
        for event in events:
            revision = event.kv.mod_revision
            if revision <= self.seen:
                continue
            key = event.kv.key.decode().removeprefix(self._prefix)
            previous = decode(event.prev_kv).value if event.HasField("prev_kv") else None
            if event.type == EVENT_PUT:
                yield put(key, revision, decode(event.kv).value, previous)
            elif previous is None:
                # The last state is compacted, so the deletion event cannot be built: readers list again.
                raise CompactedError(self.seen, revision)
            else:
                yield removal(key, revision, with_revision(previous, revision), previous)

    def _end_late_watches(self) -> None:
        """End the watches that have to read changes before the history."""
        for watch in tuple(self.watches):
            watch.check_floor(self._history.floor)

    def release(self) -> None:
        """Drop the history: the feed has no more readers, or another feed has them."""
        self._history.clear()

    def progress(self) -> int:
        """Return the revision up to which the initial readers have received all changes."""
        return self.seen if self._successor is None else max(self.seen, self._successor.progress())

    def succeed(self, feed: Feed) -> None:
        """Take over the readers of `feed`, which is complete at least up to `floor`."""
        for watch in feed.watches:
            watch.after = max(watch.after, feed.seen)
            for change in self._history.since(feed.seen):
                if change.key.startswith(watch.prefix):
                    watch.offer(change)
        self.watches |= feed.watches
        feed.watches, feed._successor = {}, self

    def fail(self, error: Callable[[QueueWatch], Exception]) -> None:
        """Fail every reader with an error."""
        for watch in tuple(self.watches):
            watch.fail(error(watch))
