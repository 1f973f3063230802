"""Printer columns that take long: they leave the event loop, and have a budget of time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from server_caller import Caller

from envtest.environment import Environment
from envtest.extensions import jsonpath, printer_columns
from envtest.extensions.printer_columns import ColumnPrinter
from opsdk.aio import large_work
from opsdk.aio.large_work import ATTEMPT_SECONDS, EVALUATION_SECONDS, REQUEST_SECONDS, attempt_output
from opsdk.structured_merge.value import JsonObject, JsonValue
from tests.envtest.extensions.test_server import CRDS, URL, definition, widget

pytestmark = pytest.mark.realtime
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
COLUMNS = 200
OBJECTS = 5
COLUMN_SECONDS = ATTEMPT_SECONDS / 10
LOOP_SECONDS = ATTEMPT_SECONDS + 8 * COLUMN_SECONDS
"""The time is checked after eight columns."""


class Columns:
    """Columns that take 1 ms each, by a clock that only they move.

    Attributes:
        seconds: of the clock, by the name of the thread.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.seconds: dict[str, float] = {}
        self.step = COLUMN_SECONDS
        monkeypatch.setattr(large_work, "perf_counter", lambda: self.now)
        monkeypatch.setattr(large_work, "thread_time", lambda: self.now)
        monkeypatch.setattr(printer_columns, "find", self._find)

    def _find(self, tree: JsonValue, path: str) -> list[JsonValue]:
        self.now += self.step
        name = threading.current_thread().name
        self.seconds[name] = self.seconds.get(name, 0.0) + self.step
        return jsonpath.find(tree, path)

    def take(self) -> tuple[float, float]:
        """Return the seconds in the event loop, and those in the thread, since the last call."""
        on_loop = self.seconds.pop(threading.current_thread().name, 0.0)
        in_thread = sum(self.seconds.values())
        self.seconds.clear()
        return on_loop, in_thread


def columns(count: int) -> list[JsonObject]:
    """Return columns with a cheap path."""
    return [{"name": f"c{number}", "type": "integer", "jsonPath": ".spec.size"} for number in range(count)]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Columns:
    """Make columns slow."""
    return Columns(monkeypatch)


async def test_tables_of_slow_columns_leave_the_loop(slow: Columns) -> None:
    """A get, a list and each event as Table take 10 ms of the loop, whatever the number of columns and objects."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CRDS, definition(additionalPrinterColumns=columns(COLUMNS)))
        for number in range(OBJECTS):
            await call("POST", URL, widget(f"w{number}", size=3))
        every = COLUMNS * slow.step
        for query, rows in (("/w0", 1), ("", OBJECTS)):
            slow.take()
            table = (await call("GET", f"{URL}{query}", accept=TABLE)).json
            on_loop, in_thread = slow.take()
            assert 0 < on_loop <= LOOP_SECONDS
            assert in_thread == pytest.approx(rows * every)
            assert [row["cells"][1:] for row in table["rows"]] == [[3] * COLUMNS] * rows
        slow.take()
        async with call.watch(f"{URL}?watch=true", accept=TABLE) as events:
            sent = [(await events.get())["object"]["rows"][0] for _ in range(OBJECTS)]
        on_loop, in_thread = slow.take()
        assert on_loop <= LOOP_SECONDS * OBJECTS  # each event has a budget of its own
        assert in_thread == pytest.approx(OBJECTS * every)
        assert [row["cells"][1:] for row in sent] == [[3] * COLUMNS] * OBJECTS


async def test_columns_beyond_the_budget_are_empty(slow: Columns) -> None:
    """A row ends with its budget of time; a request whose budget is spent has empty cells, and no error."""
    slow.step = EVALUATION_SECONDS / 100
    printer = ColumnPrinter(columns(COLUMNS))
    tree: JsonObject = {"metadata": {"name": "w"}, "spec": {"size": 3}}
    large_work.REQUEST.set(large_work.RequestBudget())
    filled: list[int] = []
    for _ in range(4):
        cells = await attempt_output(0, printer.cells, tree, 0.0)
        assert len(cells) == COLUMNS + 1
        assert cells[0] == "w"
        filled.append(cells.count(3))
    assert filled[0] == pytest.approx(100, abs=8)
    assert sum(filled) * slow.step <= REQUEST_SECONDS + 3 * 8 * slow.step
    assert filled[-1] <= 8


@pytest.mark.parametrize(
    "path",
    ["..*..*", ".m..*", ".l[?(@.a==@.b)].c", f".l[?(@{'.a' * 2000}==1)].c", ".l['a','b']..*", ".a" * 5000],
)
async def test_each_path_looks_at_the_time(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the path: an evaluation ends after few steps when its time is over."""
    tree: Any = {"m": {f"k{number}": {"a": number} for number in range(500)}, "l": [{"a": 1, "b": 2}] * 500}
    printer = ColumnPrinter([{"name": "c", "type": "integer", "jsonPath": path}] * 100)
    assert len(printer.columns) == 101
    readings = 0

    def clock() -> float:
        nonlocal readings
        readings += 1
        return readings / 1000

    monkeypatch.setattr(large_work, "perf_counter", clock)
    monkeypatch.setattr(large_work, "thread_time", clock)
    monkeypatch.setattr(large_work, "EVALUATION_SECONDS", 0.0)
    assert await attempt_output(0, printer.cells, {**tree, "metadata": {}}, 0.0) == ["", *[None] * 100]
    assert readings < 50


def test_a_row_of_large_cells_is_bounded() -> None:
    """Each column may print the whole object: cells beyond some characters are empty."""
    printer = ColumnPrinter([{"name": "c", "type": "string", "jsonPath": ".spec"}] * 100)
    cells = printer.cells({"metadata": {"name": "w"}, "spec": "x" * 1024 * 1024}, 0.0)
    assert len(cells) == 101
    assert 0 < sum(cell is not None for cell in cells[1:]) <= 8
