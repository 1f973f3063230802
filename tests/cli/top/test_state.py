"""The state of an operator from its debug pages."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cli.top.problems import ProblemLevel, ProblemSubject, problems_of
from opsdk.cli.top.state import PAGES, Sample, TopState, top_state
from opsdk.cli.top.tables import Table, table_of, text_report
from opsdk.cli.top.views import TopView
from tools.screenshot.pages import bad_night

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KEYS = st.sampled_from(
    ["controller", "name", "namespace", "reconciles", "workers", "flows", "lease", "cluster", "shard", "x"]
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=15
)


def night(**pages: object) -> TopState:
    """The state of the bad night, with other pages."""
    return top_state(Sample(taken_at=0.0, pages={**bad_night(), **pages}))


def texts(state: TopState, subject: ProblemSubject) -> list[str]:
    """The problems of a sort."""
    return [problem.text for problem in problems_of(state) if problem.subject is subject]


@given(st.dictionaries(st.sampled_from(PAGES), ANYTHING), st.dictionaries(st.sampled_from(PAGES), ANYTHING))
def test_any_page_can_be_shown(pages: dict[str, Any], earlier: dict[str, Any]) -> None:
    """Pages of any form give a state, problems, tables and a report, all without control characters."""
    state = top_state(Sample(taken_at=2.0, pages=pages), Sample(taken_at=0.0, pages=earlier))
    report = text_report(state, [problem.text for problem in problems_of(state)], 80)
    assert all(line.isprintable() or "\u3000" in line or "\xa0" in line or line.split() for line in report if line)
    assert not any(char in line for line in report for char in "\x1b\r\n\x9b\u202e")
    msgspec.json.encode(state)


def test_rates_come_from_two_samples() -> None:
    """A rate is the difference of two samples in a second; the first sample and a restart have none."""
    first, second = Sample(taken_at=10.0, pages=bad_night()), Sample(taken_at=12.0, pages=bad_night(later=True))
    assert [row.rate for row in top_state(first).controllers] == [None, None, None]
    state = top_state(second, first)
    assert [(row.controller, row.rate, row.error_rate) for row in state.controllers] == [
        ("website", 14.0, 2.0), ("database", 1.5, 0.0), ("backup", 0.0, 0.0),
    ]  # fmt: skip
    assert [cache.event_rate for cache in state.caches] == [0.0, 0.0, 0.0]
    pages = bad_night()
    pages["process"] = {**bad_night()["process"], "pid": 2}  # type: ignore[dict-item]
    restarted = top_state(Sample(taken_at=14.0, pages=pages), second)
    assert restarted.restarted
    assert restarted.controllers[0].rate is None
    assert "restarted" in texts(restarted, ProblemSubject.REPLICA)[0]
    assert top_state(first, second).controllers[0].rate is None, "the clock and the counters went back"


def test_the_worst_comes_first() -> None:
    """Stale caches, reconciles that do not end and keys that keep failing are errors, and come before warnings."""
    problems = problems_of(night())
    assert [(problem.level, problem.subject) for problem in problems] == [
        (ProblemLevel.ERROR, ProblemSubject.CACHE),
        (ProblemLevel.ERROR, ProblemSubject.STUCK),
        (ProblemLevel.ERROR, ProblemSubject.RETRIES),
        (ProblemLevel.WARNING, ProblemSubject.ERROR),
        (ProblemLevel.WARNING, ProblemSubject.QUEUE),
        (ProblemLevel.INFO, ProblemSubject.PAUSE),
    ]
    assert problems[0].text.startswith("cache secrets is stale, without a watch for 5m: watch secrets: 403")
    assert problems[1].text == "database shop/orders runs for 12m in database.py:118 wait_for_restore"
    assert problems[2].text.startswith("website shop/checkout failed 14 times: apply deployments.apps")
    assert problems[4].text == "website: 212 ready, the oldest for 84s; 4 of 4 workers are busy"


def test_a_quiet_operator_has_no_problems() -> None:
    """An operator that works has none; a standby is worth knowing, and one without a leader is a warning."""
    pages = {page: [] for page in PAGES} | {"process": {}, "leadership": {"state": "running", "election": False}}
    assert problems_of(top_state(Sample(taken_at=0.0, pages=pages))) == []
    lease = {"name": "shop", "namespace": "shop", "holder": "other-1", "identity": "me"}
    pages["leadership"] = {"state": "running", "election": True, "leading": False, "lease": lease}
    (problem,) = problems_of(top_state(Sample(taken_at=0.0, pages=pages)))
    assert (problem.level, problem.text) == (
        ProblemLevel.INFO,
        "this replica is a standby; other-1 holds the lease shop/shop",
    )
    lease["holder"] = ""
    assert problems_of(top_state(Sample(taken_at=0.0, pages=pages)))[0].level is ProblemLevel.WARNING


def test_an_older_operator_is_named() -> None:
    """Pages that an older operator does not serve are named, and the others are shown."""
    pages = {name: page for name, page in bad_night().items() if name in ("queues", "informers", "process")}
    state = top_state(Sample(taken_at=0.0, pages=pages))
    assert state.missing == ("leadership", "controllers", "running", "retries")
    assert [row.controller for row in state.controllers] == ["website", "database", "backup"]
    assert any("serves no page leadership, controllers" in text for text in texts(state, ProblemSubject.REPLICA))


def test_a_recording_is_named_and_its_end_is_an_error() -> None:
    """A replay would end where the recorder failed, or where it skipped records."""
    page: dict[str, object] = {"directory": "/var/recordings", "seconds": 180.0, "size": 2_400_000, "skipped": 0}
    (running,) = [each for each in problems_of(night(recording=page)) if each.subject is ProblemSubject.RECORDING]
    assert (running.level, running.text) == (ProblemLevel.INFO, "recording for 3m in /var/recordings: 2.4MB")
    for trouble, text in (
        ({"problem": "No space left on device"}, "the recording in /var/recordings has ended: No space left on device"),
        ({"skipped": 7}, f"{running.text}, and 7 records are missing: a replay ends there"),
    ):
        (ended,) = [
            each
            for each in problems_of(night(recording={**page, **trouble}))
            if each.subject is ProblemSubject.RECORDING
        ]
        assert (ended.level, ended.text) == (ProblemLevel.ERROR, text)
    assert not texts(night(), ProblemSubject.RECORDING)


def test_many_problems_of_one_sort_are_counted() -> None:
    """Three rows of a sort are named; the others are a number."""
    rows = [
        {"controller": "c", "namespace": "n", "name": str(n), "seconds": 100.0 + n, "attempts": 9} for n in range(50)
    ]
    state = night(running=rows, retries=rows)
    assert texts(state, ProblemSubject.STUCK)[-1] == "47 more reconciles run for over 60s"
    assert texts(state, ProblemSubject.RETRIES)[-1] == "47 more keys failed at least 5 times"
    assert len(texts(state, ProblemSubject.STUCK)) == len(texts(state, ProblemSubject.RETRIES)) == 4


def test_a_hot_loop_is_an_error() -> None:
    """A request that reconciles itself is named with the write that causes it."""
    row = {"controller": "website", "state": "running", "hot_loops": ["shop/a reconciled itself 120 times: apply"]}
    assert texts(night(controllers=[row]), ProblemSubject.HOT_LOOP) == [
        "website shop/a reconciled itself 120 times: apply"
    ]


def test_clusters_and_shards_are_shown_together() -> None:
    """A shard has its holder, and the reason and message of its cluster; both kinds of trouble are problems."""
    state = night(
        fleet=[{"cluster": "eu", "state": "owned", "reason": "Unreachable", "message": "no answer"}],
        shards=[{"shard": "eu", "state": "owned", "holder": "me"}, {"shard": "us", "state": "none", "holder": ""}],
    )
    assert [(shard.shard, shard.holder, shard.reason) for shard in state.shards] == [
        ("eu", "me", "Unreachable"),
        ("us", "", ""),
    ]
    assert texts(state, ProblemSubject.SHARD) == ["cluster eu: Unreachable: no answer", "shard us has no holder"]


# ------------------------------------------------------------------ tables
@given(st.sampled_from(TopView), st.integers(60, 200))
def test_a_table_fits_the_screen(view: TopView, width: int) -> None:
    """Every line has at most the width of the screen; without a screen nothing is cut."""
    state = night(shards=[{"shard": "x" * 80, "state": "owned", "holder": "y" * 80}])
    table = table_of(view, state)
    assert table.rows
    assert max(map(len, table.lines(max(width, 78)))) <= max(width, 78)
    assert not any("…" in line for line in table.lines())


def test_columns_sort_and_filter() -> None:
    """A column sorts by its values, not by its texts; a filter finds a text in any cell, whatever its case."""
    table = table_of(TopView.RUNNING, night())
    assert [row.cells[2] for row in table.rows] == ["12m", "3.1s", "2.1s", "1.1s"]
    assert [row.cells[2] for row in table.sorted_by(2, descending=False).rows] == ["1.1s", "2.1s", "3.1s", "12m"]
    assert table.sorted_by(99, descending=True) is table
    assert [row.cells[1] for row in table.filtered("ORDERS").rows] == ["shop/orders"]
    assert table.filtered("none").rows == ()


@given(st.sampled_from(TopView), st.integers(0, 12), st.booleans())
def test_sorting_keeps_all_rows(view: TopView, column: int, descending: bool) -> None:
    """Every column of every view can be sorted."""
    table: Table = table_of(view, night())
    rows = table.sorted_by(column, descending=descending).rows
    assert sorted(row.key for row in rows) == sorted(row.key for row in table.rows)
    assert all(len(row.cells) == len(row.order) == len(table.columns) for row in rows)


def test_the_report_has_everything() -> None:
    """The plain report begins with the operator and its problems, and has each view with rows."""
    lines = text_report(night(), ["error    a problem"])
    assert lines[0] == "shop-operator  shop-operator-7d9c5  leads for 9h  412MB  opsdk 0.1.0"
    assert lines[2] == "error    a problem"
    assert [line for line in lines if line.endswith(":")] == [f"{view.value}:" for view in TopView]
