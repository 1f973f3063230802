"""From etcd's watch responses to the readers of a bucket."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.storage.etcd import messages
from opsdk.apiserver.storage.etcd.feed import Feed
from opsdk.apiserver.storage.etcd.values import encode
from opsdk.apiserver.storage.ports import ChangeType, CompactedError
from opsdk.apiserver.storage.watch import QueueWatch

BUCKET = "core/configmaps"


def feed_at(revision: int, *, history_limit: int = 100) -> Feed:
    """A feed without readers."""
    return Feed(BUCKET, revision, prefix="/registry/", history_limit=history_limit, watch_limit=100)


def event(revision: int, *, deleted: bool = False, previous: int = 0) -> object:
    """A write of the key ``a``, or its deletion; `previous` is the revision of the state before."""
    created = messages.WatchResponse().events.add(type=int(deleted))
    created.kv.key = f"/registry/{BUCKET}/a".encode()
    created.kv.mod_revision = revision
    created.kv.value = b"" if deleted else _data(revision)
    if previous:
        created.prev_kv.key, created.prev_kv.mod_revision, created.prev_kv.value = (
            created.kv.key,
            previous,
            _data(previous),
        )
    return created


def _data(revision: int) -> bytes:
    return encode({"metadata": {"name": "a"}, "n": revision}, random.Random(revision))


def response(*events: object, revision: int = 0, **fields: object) -> object:
    """A response at a revision; default: that of its last event."""
    created = messages.WatchResponse(events=events, **fields)
    created.header.revision = revision or events[-1].kv.mod_revision
    return created


def reader(feed: Feed, since: int) -> QueueWatch:
    """A reader of the whole bucket."""
    return feed.attach(f"{BUCKET}/", since, lambda watch: feed.watches.pop(watch, None))


def revisions(watch: QueueWatch) -> list[int]:
    """The revisions that wait."""
    return [change.revision for change in watch.ready(1000)]


@given(st.lists(st.integers(1, 5), max_size=12), st.data())
def test_a_broken_watch_goes_on_without_gap_or_repetition(sizes: list[int], data: st.DataObject) -> None:
    """Wherever a connection breaks, the next one continues after the last event, and repeats none."""
    feed, last = feed_at(10), 10 + sum(sizes)
    watch = reader(feed, 10)
    revisions_read = []
    while feed.seen < last:
        start = data.draw(st.integers(10, feed.seen), label="replayed from")
        stop = data.draw(st.integers(feed.seen + 1, last), label="broken at")
        feed.resume()
        feed.take(response(revision=last, created=True))
        cut = data.draw(st.integers(start, stop), label="fragment")
        if cut > start:
            feed.take(response(*map(event, range(start + 1, cut + 1)), fragment=True))
        if data.draw(st.booleans(), label="broken in a fragment") and cut > start:
            continue
        if stop > cut:
            feed.take(response(*map(event, range(cut + 1, stop + 1))))
    revisions_read = revisions(watch)
    assert revisions_read == list(range(11, last + 1))


def test_a_deletion_has_the_last_state() -> None:
    """A deletion event has the last state with the revision of the deletion."""
    feed = feed_at(10)
    watch = reader(feed, 10)
    feed.take(response(event(12, deleted=True, previous=9)))
    [change] = watch.ready(9)
    assert (change.kind, change.key, change.revision) == (ChangeType.DELETE, f"{BUCKET}/a", 12)
    assert change.value == {"metadata": {"name": "a", "resourceVersion": "12"}, "n": 9}
    assert change.previous == {"metadata": {"name": "a", "resourceVersion": "9"}, "n": 9}


def test_a_deletion_without_its_last_state_ends_the_watches() -> None:
    """If compaction took the last state of a deletion, watches end, so that readers list again."""
    with pytest.raises(CompactedError):
        feed_at(10).take(response(event(12, deleted=True)))


def test_progress_counts_only_when_nothing_is_missing() -> None:
    """An empty response is progress; the confirmation of a watch is not, because earlier events follow it."""
    feed = feed_at(10)
    feed.take(response(revision=20, created=True))
    assert feed.progress() == 10
    feed.take(response(revision=20))
    assert feed.progress() == 20


def test_a_compacted_start_ends_the_watches() -> None:
    """The error has the oldest revision that is kept."""
    with pytest.raises(CompactedError) as caught:
        feed_at(10).take(response(revision=30, canceled=True, compact_revision=25))
    assert caught.value.oldest == 25


@given(st.integers(10, 20), st.integers(10, 20), st.integers(1, 5))
def test_a_reader_that_changes_feeds_sees_each_change_once(early: int, shared: int, limit: int) -> None:
    """A reader that changes feeds gets each later change once and in order, whichever feed is ahead."""
    late = feed_at(10, history_limit=limit)
    for revision in range(11, shared + 1):
        late.take(response(event(revision)))
    own = feed_at(10)
    watch = reader(own, 10)
    for revision in range(11, max(early, late.floor) + 1):
        own.take(response(event(revision)))
    late.succeed(own)
    assert watch.progress() is None or watch.progress() == max(own.seen, late.seen)
    for revision in range(shared + 1, 23):
        late.take(response(event(revision)))
    assert revisions(watch) == list(range(11, 23))
    assert watch.progress() == 22
