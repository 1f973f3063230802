"""What the end of a watch means for the next one. Pure: the tests pass the time."""

from __future__ import annotations

import pytest

from opsdk.cache.watch_history import WatchHistory, WatchVerdict


def watch(history: WatchHistory, seconds: float | None, *, objects: int = 0, bookmarks: int = 0) -> None:
    """Play one watch; None seconds: the server does not accept it."""
    history.started()
    if seconds is not None:
        history.opened(100.0)
    for _ in range(objects):
        history.received(is_object=True, in_list=False)
    for _ in range(bookmarks):
        history.received(is_object=False, in_list=False)
    history.ended(100.0 + (seconds or 0.0))


@pytest.mark.parametrize(("seconds", "objects"), [(1.0, 0), (0.1, 1), (300.0, 0)])
def test_a_watch_that_lasts_or_sends_an_object_is_resumed_at_once(seconds: float, objects: int) -> None:
    """A second, or an object, makes the end of a watch an ordinary one, however often it ends."""
    history = WatchHistory()
    for _ in range(20):
        watch(history, seconds, objects=objects)
        assert history.after_close() is WatchVerdict.RESUME


def test_every_fifth_short_watch_in_a_row_leads_to_a_list() -> None:
    """Short watches are resumed after the backoff; the fifth one means that the resource version is stale."""
    history = WatchHistory()
    verdicts = []
    for _ in range(10):
        watch(history, 0.5, bookmarks=1)
        verdicts.append(history.after_close())
    assert verdicts == [*[WatchVerdict.RESUME_LATER] * 4, WatchVerdict.LIST_LATER] * 2


@pytest.mark.parametrize("fresh", ["list", "object", "long watch"])
def test_short_watches_are_counted_anew_after_a_sign_of_freshness(fresh: str) -> None:
    """A list, an object or a long watch shows that the resource version is not stale."""
    history = WatchHistory()
    for _ in range(4):
        watch(history, 0.5)
        assert history.after_close() is WatchVerdict.RESUME_LATER
    if fresh == "list":
        history.listed()
    else:
        watch(history, 0.5, objects=1) if fresh == "object" else watch(history, 2.0)
        assert history.after_close() is WatchVerdict.RESUME
    watch(history, 0.5)
    assert history.after_close() is WatchVerdict.RESUME_LATER


def test_a_second_expiry_waits_until_an_event_has_come() -> None:
    """410 leads to a list at once; a second one waits, unless a watch in between sent an event, a bookmark too."""
    history = WatchHistory()
    watch(history, None)
    assert history.after_expiry() is WatchVerdict.LIST
    watch(history, None)
    assert history.after_expiry() is WatchVerdict.LIST_LATER
    watch(history, 0.1, bookmarks=1)
    assert history.after_expiry() is WatchVerdict.LIST


def test_events_of_a_streaming_list_do_not_excuse_an_expiry() -> None:
    """The objects of a list that never completes do not make the next 410 the first one."""
    history = WatchHistory()
    watch(history, None)
    assert history.after_expiry() is WatchVerdict.LIST
    history.started()
    history.opened(1.0)
    history.received(is_object=True, in_list=True)
    history.ended(2.0)
    assert history.after_expiry() is WatchVerdict.LIST_LATER


def test_a_broken_watch_is_resumed_once_until_an_object_comes() -> None:
    """The connection after a broken one must send an object, or the next break leads to a list."""
    history = WatchHistory()
    watch(history, 60.0)
    assert history.after_break() is WatchVerdict.CHECK_LATER
    watch(history, 60.0, bookmarks=1)
    assert history.after_break() is WatchVerdict.LIST_LATER
    watch(history, 0.1, objects=1)
    assert history.after_break() is WatchVerdict.CHECK_LATER


def test_a_watch_that_the_server_did_not_accept_is_no_broken_one() -> None:
    """A connection that breaks before the response leads to a list, and does not count as the first break."""
    history = WatchHistory()
    watch(history, None)
    assert history.after_break() is WatchVerdict.LIST_LATER
    watch(history, 0.0)
    assert history.after_break() is WatchVerdict.CHECK_LATER


def test_a_watch_works_after_a_second_or_an_event() -> None:
    """An accepted watch works as soon as it has sent an event of any kind, or has lasted for a second."""
    history = WatchHistory()
    history.started()
    assert not history.works(now=10.0)
    history.opened(10.0)
    assert not history.works(now=10.9)
    assert history.works(now=11.0)
    history.received(is_object=False, in_list=False)
    assert history.works(now=10.0)
    history.ended(11.0)
    assert not history.works(now=20.0)


@pytest.mark.parametrize(("seconds", "healthy"), [(None, False), (4.9, False), (5.0, True)])
def test_a_watch_of_five_seconds_is_healthy(seconds: float | None, healthy: bool) -> None:
    """Failures count from one again after a watch of five seconds, objects or not."""
    history = WatchHistory()
    watch(history, seconds, objects=3)
    assert history.was_healthy is healthy
