"""The budget of the histories of one storage."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.storage.history import History, HistoryBudget, put
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import CompactedError
from opsdk.structured_merge.value import JsonObject

LIMIT = 500
CHANGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 200), st.sampled_from(["put", "compact", "clear"])))


def tree(size: int) -> JsonObject:
    """An object of about so many bytes."""
    return {"a": "x" * size}


@given(CHANGES)
def test_all_histories_stay_within_the_budget(changes: list[tuple[int, int, str]]) -> None:
    """The histories hold at most the budget's bytes, each is a gapless end of its changes, and the sum is exact."""
    budget = HistoryBudget(LIMIT)
    histories = [History(budget=budget) for _ in range(3)]
    written: list[list[int]] = [[], [], []]
    for revision, (index, size, action) in enumerate(changes, 1):
        if action == "put":
            histories[index].append(put("a/b/c", revision, tree(size), None))
            written[index].append(revision)
        elif action == "compact":
            histories[index].compact(revision)
        else:
            histories[index].clear()
        windows = [list(history.since(0)) for history in histories]
        sizes = [sum(len(json.dumps(c.value, separators=(",", ":"))) for c in changes) for changes in windows]
        assert [history.held for history in histories] == sizes
        assert budget.held == sum(sizes) <= LIMIT
        for history, part, all_revisions in zip(histories, windows, written, strict=True):
            assert [c.revision for c in part] == [r for r in all_revisions if r > history.floor]


def test_the_largest_history_pays() -> None:
    """A busy bucket never drops the changes of a quiet one."""
    budget = HistoryBudget(LIMIT)
    quiet, busy = History(budget=budget), History(budget=budget)
    quiet.append(put("a/b/c", 1, tree(100), None))
    for revision in range(2, 100):
        busy.append(put("a/d/e", revision, tree(50), None))
    assert len(quiet) == 1
    assert busy.floor > 2


async def test_a_watcher_behind_the_history_is_closed() -> None:
    """A slow watcher ends when its next change is dropped; one that reads goes on, and so does one that is new."""
    storage = MemoryStorage(history_bytes=5_000)
    slow, fast = storage.watch_now("core/configmaps/"), storage.watch_now("core/configmaps/")
    for number in range(100):
        storage.create_now(f"core/configmaps/{number:03}", {"metadata": {"name": "a"}, "data": {"a": "x" * 100}})
        assert (await anext(fast)).key == f"core/configmaps/{number:03}"
    assert slow.overflowed
    assert [change async for change in slow] == []
    assert not fast.overflowed
    with pytest.raises(CompactedError):
        storage.watch_now("core/configmaps/", 2)


async def test_a_quiet_watcher_is_not_closed() -> None:
    """A watcher without pending changes, and one that is a few changes behind, survive any number of other changes."""
    storage = MemoryStorage(history_bytes=5_000)
    watches = [storage.watch_now("core/secrets/a/"), storage.watch_now("core/secrets/b/")]
    storage.create_now("core/secrets/b/a", {"metadata": {"name": "a"}})
    for number in range(100):
        storage.create_now(f"core/configmaps/{number:03}", {"metadata": {"name": "a"}, "data": {"a": "x" * 100}})
    assert not any(watch.overflowed for watch in watches)
    assert (await anext(watches[1])).key == "core/secrets/b/a"
