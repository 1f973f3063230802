"""The watches of a storage: one etcd watch for each bucket that has readers.

A reader that starts before the bucket's history gets its own etcd watch until it has caught up.

Upstream: k8s.io/apiserver/pkg/storage/etcd3/watcher.go and cacher/cacher.go (v1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic
from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.apiserver.storage.etcd import messages
from opsdk.apiserver.storage.etcd.client import EtcdClient, Rpc
from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure, api_error, classify
from opsdk.apiserver.storage.etcd.feed import Feed
from opsdk.apiserver.storage.etcd.options import EtcdOptions
from opsdk.apiserver.storage.etcd.values import range_end
from opsdk.apiserver.storage.history import HistoryBudget
from opsdk.apiserver.storage.ports import CompactedError
from opsdk.apiserver.storage.watch import QueueWatch

log = logging.getLogger(__name__)

_BACKOFF = Backoff(base=0.05, factor=2, cap=2.0, jitter=0.5)
_FINAL = frozenset({EtcdFailure.DENIED, EtcdFailure.OTHER, EtcdFailure.FUTURE})
"""Failures that every member and every retry would return."""


class Watches(Closing):
    """Owns the feeds and their tasks."""

    def __init__(self, client: EtcdClient, options: EtcdOptions) -> None:
        self._client = client
        self._options = options
        self._feeds: dict[Feed, asyncio.Task[None]] = {}
        self._shared: dict[str, Feed] = {}
        self._budget = HistoryBudget(options.history_bytes)
        self._tasks = TaskOwner("etcd-watches", on_error=_report)

    def __repr__(self) -> str:
        return f"<Watches of {', '.join(sorted(self._shared)) or 'nothing'}>"

    def __len__(self) -> int:
        return len(self._feeds)

    def watch(self, bucket: str, prefix: str, since: int, current: int) -> QueueWatch:
        """Return a reader of the changes below `prefix` after `since`; `current` is etcd's current revision."""
        start = min(since, current)
        feed = self._shared.get(bucket)
        if feed is None:
            feed = self._shared[bucket] = self._start(bucket, start)
        elif start < feed.floor:
            feed = self._start(bucket, start)
        return feed.attach(prefix, since, self._on_close)

    def _start(self, bucket: str, revision: int) -> Feed:
        options = self._options
        feed = Feed(
            bucket,
            revision,
            prefix=options.prefix,
            history_limit=options.history_limit,
            watch_limit=options.watch_limit,
            budget=self._budget,
        )
        task = self._feeds[feed] = self._tasks.start(self._run(feed), name=bucket)
        task.add_done_callback(partial(self._on_done, feed))
        return feed

    async def _run(self, feed: Feed) -> None:
        """Read a feed until it ends for good; a lost watch continues after the last change."""
        backoff = _BACKOFF.start()
        while True:
            try:
                await self._read(feed, backoff.reset)
            except CompactedError as error:
                self._end(feed, partial(_compacted, feed, error.oldest))
                return
            except EtcdError as error:
                if error.failure in _FINAL:
                    self._end(feed, partial(_refused, feed, error))
                    return
                delay = backoff.next(monotonic())
                log.info(
                    "the watch of %s continues after revision %d in %.2g s: %s", feed.bucket, feed.seen, delay, error
                )
                await asyncio.sleep(delay)
            else:
                return

    async def _read(self, feed: Feed, on_progress: Callable[[], None]) -> None:
        """Read one etcd watch until another feed takes over the readers. Raises if the watch ends."""
        key = f"{self._options.prefix}{feed.bucket}/".encode()
        request = messages.WatchCreateRequest(
            key=key,
            range_end=range_end(key),
            start_revision=feed.seen + 1,
            progress_notify=True,
            prev_kv=True,
            fragment=True,
        )
        feed.resume()
        async with self._client.watch(request) as responses:
            async for response in responses:
                if response.canceled and not response.compact_revision:
                    raise EtcdError(classify("", response.cancel_reason), response.cancel_reason)
                if response.created and response.header.revision < feed.seen:
                    await self._check_restored(feed)
                feed.take(response)
                on_progress()
                if self._hand_over(feed):
                    return

    async def _check_restored(self, feed: Feed) -> None:
        """Raise `CompactedError` if etcd was restored from a backup: its revisions repeat, so readers list again.

        A lagging member starts a watch at an older revision too; a linearizable read distinguishes the two.
        """
        key = self._options.prefix.encode()
        response, _ = await self._client.request(Rpc.RANGE, messages.RangeRequest(key=key))
        if response.header.revision < feed.seen:
            raise CompactedError(feed.seen, None)

    def _hand_over(self, feed: Feed) -> bool:
        shared = self._shared.get(feed.bucket)
        if shared is None:
            self._shared[feed.bucket] = feed
            return False
        if shared is feed or feed.seen < shared.floor:
            return False
        shared.succeed(feed)
        feed.release()
        del self._feeds[feed]
        return True

    def _on_close(self, watch: QueueWatch) -> None:
        for feed, task in tuple(self._feeds.items()):
            if watch in feed.watches:
                feed.watches.pop(watch)
                if not feed.watches:
                    self._forget(feed)
                    task.cancel()

    def _forget(self, feed: Feed) -> None:
        feed.release()
        self._feeds.pop(feed, None)
        if self._shared.get(feed.bucket) is feed:
            del self._shared[feed.bucket]

    def _end(self, feed: Feed, error: Callable[[QueueWatch], Exception]) -> None:
        self._forget(feed)
        feed.fail(error)

    def _on_done(self, feed: Feed, task: asyncio.Task[None]) -> None:
        """If a task ends while its feed has readers, fail the readers too, so that they list again."""
        if self._feeds.get(feed) is task:
            self._end(feed, lambda watch: CompactedError(watch.after, None))

    def end(self) -> None:
        """End every reader; new ones can start."""
        for feed in tuple(self._feeds):
            for watch in tuple(feed.watches):
                watch.close()

    async def aclose(self) -> None:
        """End all readers and tasks. Idempotent."""
        self.end()
        await self._tasks.aclose()


def _compacted(feed: Feed, oldest: int | None, watch: QueueWatch) -> Exception:
    return CompactedError(max(watch.after, feed.seen), oldest)


def _refused(feed: Feed, error: EtcdError, _: QueueWatch) -> Exception:
    return api_error(error, "watch", feed.bucket)


def _report(name: str, error: BaseException) -> None:
    log.error("%s failed", name, exc_info=error)
