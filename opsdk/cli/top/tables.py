"""The tables of the views: rows, order, filter and widths. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from rich.cells import cell_len, set_cell_size

from opsdk.cli.top.formats import count, duration, error_text, rate, short_place, size
from opsdk.cli.top.problems import MANY_ATTEMPTS, STUCK_SECONDS
from opsdk.cli.top.state import CacheRow, ControllerSummary, FlowRow, KeyedRow, TopState
from opsdk.cli.top.views import TopView

_GAP = 2
_MIN_WIDTH = 6
# Characters of a cell; the details of a row have the whole text.
_MAX_CELL = 300
_STATES_FIRST = {"stale": 0, "denied": 1, "stopped": 2, "syncing": 3}


class ConsoleColumn(msgspec.Struct, frozen=True):
    """One column.

    Attributes:
        title: its heading.
        value: the value by which it is sorted: an attribute of the record of a row, or a function of the record.
        show: returns the cell of a value.
        cell: returns the cell of a record, where the value does not suffice.
        right: align numbers to the right.
        minimum: the narrowest width to which the column shrinks where the table is wider than the screen; 0: it does
            not shrink.
    """

    title: str
    value: str | Callable[[Any], float | str | None]
    show: Callable[[Any], str] = str
    cell: Callable[[Any], str] | None = None
    right: bool = False
    minimum: int = 0

    def value_of(self, record: object) -> float | str | None:
        """Return the value of a record."""
        return getattr(record, self.value) if isinstance(self.value, str) else self.value(record)

    def cell_of(self, record: object) -> str:
        """Return the cell of a record."""
        return self.show(self.value_of(record)) if self.cell is None else self.cell(record)


class RowTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What an action on a row is for: a controller, or one object of it.

    Attributes:
        paused: a controller is paused; of an object the console does not know it.
    """

    controller: str
    cluster: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    paused: bool = False

    def __str__(self) -> str:
        if not self.name:
            return f"controller {self.controller}"
        return f"{self.controller} {self.namespace}/{self.name}" if self.namespace else f"{self.controller} {self.name}"


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row.

    Attributes:
        key: identifies the row in later states.
        cells: the texts, one for each column.
        order: the values by which the columns are sorted.
        details: lines with everything that is known.
        target: what actions are for; None for rows without actions.
        alarming: show the row as a problem.
    """

    key: str
    cells: tuple[str, ...]
    order: tuple[float | str, ...]
    details: tuple[str, ...] = ()
    target: RowTarget | None = None
    alarming: bool = False


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table in its own order: the worst rows first."""

    columns: tuple[ConsoleColumn, ...]
    rows: tuple[TableRow, ...]

    def sorted_by(self, column: int, *, descending: bool) -> Table:
        """Return the table in the order of a column."""
        if not 0 <= column < len(self.columns):
            return self
        # A column has values of one type in all rows.
        rows = sorted(self.rows, key=lambda row: row.order[column], reverse=descending)
        return msgspec.structs.replace(self, rows=tuple(rows))

    def filtered(self, text: str) -> Table:
        """Return the rows with a text in one of their cells, whatever its case."""
        sought = text.casefold()
        rows = tuple(row for row in self.rows if any(sought in cell.casefold() for cell in row.cells))
        return msgspec.structs.replace(self, rows=rows)

    def widths(self, width: int | None) -> list[int]:
        """Return the widths of the columns in cells of a terminal.

        Args:
            width: of the screen; None for as wide as the cells need.
        """
        widths = [
            max([cell_len(column.title), *(cell_len(row.cells[index]) for row in self.rows)])
            for index, column in enumerate(self.columns)
        ]
        minima = [column.minimum for column in self.columns]
        _shrink(widths, minima, width)
        # On a very narrow screen, all of these columns become narrow.
        _shrink(widths, [min(minimum, _MIN_WIDTH) for minimum in minima], width)
        return widths

    def lines(self, width: int | None = None) -> list[str]:
        """Return the table as text, with its headings."""
        widths = self.widths(width)
        every = [tuple(column.title for column in self.columns), *(row.cells for row in self.rows)]
        return [
            (" " * _GAP).join(map(fit, cells, widths, (column.right for column in self.columns))).rstrip()
            for cells in every
        ]


def _shrink(widths: list[int], minima: Sequence[int], width: int | None) -> None:
    """Make columns narrower, the widest first, until all fit or have their minimum. A minimum of 0 is a fixed width."""
    while width is not None and (over := sum(widths) + _GAP * (len(widths) - 1) - width) > 0:
        shrinkable = [index for index, minimum in enumerate(minima) if 0 < minimum < widths[index]]
        if not shrinkable:
            return
        widest = max(shrinkable, key=lambda index: widths[index])
        # Down to the next widest column, so that the narrow ones stay whole.
        second = max((widths[index] for index in shrinkable if index != widest), default=0)
        widths[widest] = max(widths[widest] - over, minima[widest], min(second, widths[widest] - 1))


def fit(cell: str, width: int, right: bool = False) -> str:
    """Return a cell in exactly its width, cut at the end or filled.

    >>> fit("reconciler", 6), fit("12", 4, True)
    ('recon…', '  12')
    """
    length = cell_len(cell)
    if length > width:
        return f"{set_cell_size(cell, max(width - 1, 0))}…"
    return " " * (width - length) + cell if right else cell + " " * (width - length)


def table_of(view: TopView, state: TopState) -> Table:
    """Return the table of a view."""
    return _TABLES[view](state)


def _row(
    columns: Sequence[ConsoleColumn],
    record: object,
    *,
    key: str = "",
    details: msgspec.Struct | Mapping[str, object],
    target: RowTarget | None = None,
    alarming: bool = False,
) -> TableRow:
    """Return the row of a record. Its key is the first cell, unless it has one of its own."""
    fields = msgspec.structs.asdict(details) if isinstance(details, msgspec.Struct) else details
    cells = [column.cell_of(record) for column in columns]
    return TableRow(
        key=key or cells[0],
        cells=tuple(cell[:_MAX_CELL] for cell in cells),
        order=tuple(_optional(column.value_of(record)) for column in columns),
        details=tuple(f"{name}: {_text(value)}" for name, value in fields.items() if value not in ("", None, (), [])),
        target=target,
        alarming=alarming,
    )


def _object_table(
    columns: tuple[ConsoleColumn, ...],
    records: Iterable[KeyedRow],
    is_alarming: Callable[[Any], bool] = lambda _: False,
) -> Table:
    """Return a table of objects, in the given order."""
    rows = [
        _row(
            columns,
            record,
            key=f"{record.controller}/{record.key}",
            details=record,
            target=RowTarget(
                controller=record.controller,
                cluster=record.cluster,
                kind=record.kind,
                namespace=record.namespace,
                name=record.name,
            ),
            alarming=is_alarming(record),
        )
        for record in records
    ]
    return Table(columns=columns, rows=tuple(rows))


def _text(value: object) -> str:
    if isinstance(value, tuple | list):
        return "".join(f"\n  {part}" for part in value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _optional(value: float | str | None) -> float | str:
    """Return a value to sort by; missing ones are the smallest."""
    return -1.0 if value is None else value


def _or_dash(text: str) -> str:
    return text or "-"


# -------------------------------------------------------------- views
def controller_state(row: ControllerSummary) -> str:
    """Return the state of a controller in a word.

    >>> controller_state(ControllerSummary(state="running", paused="paused until 2026-01-01T00:00:00Z"))
    'paused'
    """
    if row.paused:
        return "paused"
    if row.problems:
        return "waits"
    return "standby" if row.standby else row.state or "unknown"


_CONTROLLERS: Final = (
    ConsoleColumn("CONTROLLER", "controller", minimum=8),
    ConsoleColumn("STATE", controller_state, minimum=8),
    ConsoleColumn("READY", "ready", count, right=True),
    ConsoleColumn("LATER", "delayed", count, right=True),
    ConsoleColumn(
        "OLDEST",
        "oldest_ready_seconds",
        cell=lambda row: duration(row.oldest_ready_seconds if row.ready else None),
        right=True,
    ),
    ConsoleColumn("BUSY", "active", cell=lambda row: f"{row.active}/{row.limit}", right=True),
    ConsoleColumn("RATE/s", "rate", rate, right=True),
    ConsoleColumn("ERR/s", "error_rate", rate, right=True),
    ConsoleColumn("FAILED", "failed", count, right=True),
    ConsoleColumn("RETRY", "retrying", count, right=True),
)


def _controllers(state: TopState) -> Table:
    rows = [
        _row(
            _CONTROLLERS,
            row,
            details={
                **msgspec.structs.asdict(row),
                "flows": [f"priority {f.priority}, {f.flow}: {f.ready}" for f in row.flows],
            },
            target=RowTarget(controller=row.controller, cluster=row.cluster, kind=row.kind, paused=bool(row.paused)),
            alarming=bool(row.problems or row.hot_loops or row.error_rate),
        )
        for row in sorted(state.controllers, key=_trouble)
    ]
    return Table(columns=_CONTROLLERS, rows=tuple(rows))


def _trouble(row: ControllerSummary) -> tuple[int, int, int, str]:
    """Return the order of controllers: those with problems, retries and long queues first."""
    return -len(row.problems) - len(row.hot_loops), -row.retrying, -row.ready, row.controller


class _FlowOfController(NamedTuple):
    controller: ControllerSummary
    flow: FlowRow

    @property
    def share(self) -> float:
        return self.flow.ready / self.controller.ready if self.controller.ready else 0.0


_QUEUES: Final = (
    ConsoleColumn("CONTROLLER", lambda row: row.controller.controller, minimum=8),
    ConsoleColumn("PRIORITY", lambda row: row.flow.priority, right=True),
    ConsoleColumn("FLOW", lambda row: row.flow.flow, _or_dash, minimum=8),
    ConsoleColumn("READY", lambda row: row.flow.ready, count, right=True),
    ConsoleColumn("SHARE", "share", "{:.0%}".format, right=True),
)


def _queues(state: TopState) -> Table:
    rows = []
    for controller in state.controllers:
        target = RowTarget(controller=controller.controller, cluster=controller.cluster, kind=controller.kind)
        for flow in controller.flows:
            key = f"{controller.controller}/{flow.priority}/{_or_dash(flow.flow)}"
            rows.append(_row(_QUEUES, _FlowOfController(controller, flow), key=key, details=flow, target=target))
        if controller.more_flows:
            name = controller.controller
            cells = (name[:_MAX_CELL], "", f"{controller.more_flows} more", "", "")
            rows.append(TableRow(key=f"{name}/more", cells=cells, order=(name, 0.0, "", 0.0, 0.0)))
    ready = [column.title for column in _QUEUES].index("READY")
    return Table(columns=_QUEUES, rows=tuple(rows)).sorted_by(ready, descending=True)


_RUNNING: Final = (
    ConsoleColumn("CONTROLLER", "controller", minimum=8),
    ConsoleColumn("OBJECT", "key", minimum=20),
    ConsoleColumn("FOR", "seconds", duration, right=True),
    ConsoleColumn("TRY", lambda row: row.attempt + 1, right=True),
    ConsoleColumn("PLACE", "place", lambda place: _or_dash(short_place(place)), minimum=8),
)


def _running(state: TopState) -> Table:
    records = sorted(state.running, key=lambda row: -row.seconds)
    return _object_table(_RUNNING, records, lambda row: row.seconds >= STUCK_SECONDS)


_RETRIES: Final = (
    ConsoleColumn("CONTROLLER", "controller", minimum=8),
    ConsoleColumn("OBJECT", "key", minimum=20),
    ConsoleColumn("FAILED", "attempts", right=True),
    ConsoleColumn("DUE", "due_seconds", duration, right=True),
    ConsoleColumn("PRIO", "priority", right=True),
    ConsoleColumn("LAST ERROR", "error", _or_dash, minimum=8),
)


def _retries(state: TopState) -> Table:
    records = sorted(state.retries, key=lambda row: -row.attempts)
    return _object_table(_RETRIES, records, lambda row: row.attempts >= MANY_ATTEMPTS)


_ERRORS: Final = (
    ConsoleColumn("AGO", "seconds_ago", duration, right=True),
    ConsoleColumn("CONTROLLER", "controller", minimum=8),
    ConsoleColumn("OBJECT", "key", minimum=20),
    ConsoleColumn("ERR", "errors", right=True),
    ConsoleColumn("NOW", lambda row: "ok" if row.recovered else "fails"),
    ConsoleColumn("ERROR", "detail", error_text, minimum=8),
)


def _errors(state: TopState) -> Table:
    records = sorted(state.errors, key=lambda row: (row.recovered, row.seconds_ago))
    return _object_table(_ERRORS, records, lambda row: not row.recovered)


_SLOWEST: Final = (
    ConsoleColumn("CONTROLLER", "controller", minimum=8),
    ConsoleColumn("OBJECT", "key", minimum=20),
    ConsoleColumn("TOTAL", "seconds", duration, right=True),
    ConsoleColumn("MAX", "max_seconds", duration, right=True),
    ConsoleColumn("WAITED", "max_waited", duration, right=True),
    ConsoleColumn("RUNS", "reconciles", count, right=True),
    ConsoleColumn("ERR", "errors", count, right=True),
    ConsoleColumn("REQ", "requests", count, right=True),
    ConsoleColumn("LAST", "last_result", minimum=8),
)


def _slowest(state: TopState) -> Table:
    records = sorted(state.slowest, key=lambda row: -row.seconds)
    return _object_table(_SLOWEST, records)


_CACHES: Final = (
    ConsoleColumn(
        "CACHE",
        lambda row: f"{row.cluster}: {row.name}",
        cell=lambda row: f"{row.cluster}: {row.name}" if row.cluster else row.name,
        minimum=24,
    ),
    ConsoleColumn("STATE", "state"),
    ConsoleColumn("AGE", "seconds_since_contact", duration, right=True),
    ConsoleColumn("OBJECTS", "objects", count, right=True),
    ConsoleColumn("SIZE", "size", size, right=True),
    ConsoleColumn("EV/s", "event_rate", rate, right=True),
    ConsoleColumn("LISTS", "lists", count, right=True),
    ConsoleColumn("ERR", "errors", count, right=True),
    ConsoleColumn(
        "LAST ERROR",
        "last_error",
        cell=lambda row: row.last_error or next(iter(row.failing_functions), "-"),
        minimum=8,
    ),
)


def _caches(state: TopState) -> Table:
    def order(cache: CacheRow) -> tuple[int, bool, int]:
        return _STATES_FIRST.get(cache.state, 4), not cache.failing_functions, -cache.size

    rows = [
        _row(_CACHES, cache, details=cache, alarming=cache.state != "current" or bool(cache.failing_functions))
        for cache in sorted(state.caches, key=order)
    ]
    return Table(columns=_CACHES, rows=tuple(rows))


class _LeaseRow(NamedTuple):
    lease: str
    state: str
    holder: str
    since: float | None
    left: float | None
    message: str = ""
    is_shard: bool = False


_LEASES: Final = (
    ConsoleColumn("LEASE", "lease", minimum=8),
    ConsoleColumn("STATE", "state"),
    ConsoleColumn("HOLDER", "holder", _or_dash, minimum=8),
    ConsoleColumn("SINCE", "since", duration, right=True),
    # No replica shows when the lease of a shard ends.
    ConsoleColumn("LEFT", "left", cell=lambda row: "" if row.is_shard else duration(row.left), right=True),
    ConsoleColumn("MESSAGE", "message", minimum=8),
)


def _leases(state: TopState) -> Table:
    lead = state.leadership
    role = "leads" if lead.leading else "standby" if lead.election else lead.state or "unknown"
    rows = []
    if lead.election or not state.shards:
        name = (lead.lease or "leader election") if lead.election else "no leader election"
        record = _LeaseRow(name, role, lead.holder, lead.leading_seconds, lead.expires_seconds)
        rows.append(_row(_LEASES, record, details=lead, alarming=lead.election and not lead.holder))
    for shard in state.shards:
        message = f"{shard.reason} {shard.message}".strip()
        record = _LeaseRow(shard.shard, shard.state, shard.holder, shard.owned_seconds, None, message, is_shard=True)
        alarming = not shard.holder or shard.reason not in ("", "Connected")
        rows.append(_row(_LEASES, record, details=shard, alarming=alarming))
    return Table(columns=_LEASES, rows=tuple(rows))


_TABLES: Final[Mapping[TopView, Callable[[TopState], Table]]] = {
    TopView.CONTROLLERS: _controllers,
    TopView.QUEUES: _queues,
    TopView.RUNNING: _running,
    TopView.RETRIES: _retries,
    TopView.ERRORS: _errors,
    TopView.SLOWEST: _slowest,
    TopView.CACHES: _caches,
    TopView.LEASES: _leases,
}


def headline(state: TopState) -> str:
    """Return the operator, its process and its role in one line."""
    process, lead = state.process, state.leadership
    words = [process.operator or "operator", process.host]
    if lead.election:
        words.append(f"leads for {duration(lead.leading_seconds)}" if lead.leading else "standby")
    words.append(size(process.rss_bytes) if process.rss_bytes else "")
    words.append(f"opsdk {process.opsdk}" if process.opsdk else "")
    return "  ".join(filter(None, words))


def text_report(state: TopState, problems: Iterable[str], width: int | None = None) -> list[str]:
    """Return everything as lines: the headline, the problems, and each view that has rows."""
    lines = [headline(state), "", *problems]
    for view in TopView:
        table = table_of(view, state)
        if table.rows:
            lines += ["", f"{view.value}:", *(f"  {line}" for line in table.lines(width - 2 if width else None))]
    return lines
