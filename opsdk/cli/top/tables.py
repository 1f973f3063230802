"""The tables of the views: rows, order, filter and widths. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from rich.cells import cell_len, set_cell_size

from opsdk.cli.top.formats import count, duration, error_text, rate, short_place, size
from opsdk.cli.top.problems import MANY_ATTEMPTS, STUCK_SECONDS
from opsdk.cli.top.state import CacheRow, ControllerSummary, TopState
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
        right: align numbers to the right.
        minimum: the narrowest width to which the column shrinks where the table is wider than the screen; 0: it does
            not shrink.
    """

    title: str
    right: bool = False
    minimum: int = 0


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
    cells: Sequence[str],
    order: Sequence[float | str],
    *,
    key: str = "",
    details: Mapping[str, object] | None = None,
    target: RowTarget | None = None,
    alarming: bool = False,
) -> TableRow:
    """Return a row with short cells. Its key is the first cells, unless it has one of its own."""
    lines = [f"{name}: {_text(value)}" for name, value in (details or {}).items() if value not in ("", None, (), [])]
    return TableRow(
        key=key or cells[0],
        cells=tuple(cell[:_MAX_CELL] for cell in cells),
        order=tuple(order),
        details=tuple(lines),
        target=target,
        alarming=alarming,
    )


def _text(value: object) -> str:
    if isinstance(value, tuple | list):
        return "".join(f"\n  {part}" for part in value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _details(struct: msgspec.Struct) -> dict[str, object]:
    return msgspec.structs.asdict(struct)


def _optional(value: float | None) -> float:
    """Return a value to sort by; missing ones are the smallest."""
    return -1.0 if value is None else value


# -------------------------------------------------------------- views
def _controllers(state: TopState) -> Table:
    columns = (
        ConsoleColumn("CONTROLLER", minimum=8),
        ConsoleColumn("STATE", minimum=8),
        ConsoleColumn("READY", right=True),
        ConsoleColumn("LATER", right=True),
        ConsoleColumn("OLDEST", right=True),
        ConsoleColumn("BUSY", right=True),
        ConsoleColumn("RATE/s", right=True),
        ConsoleColumn("ERR/s", right=True),
        ConsoleColumn("FAILED", right=True),
        ConsoleColumn("RETRY", right=True),
    )
    rows = [
        _row(
            [
                row.controller, controller_state(row), count(row.ready), count(row.delayed),
                duration(row.oldest_ready_seconds if row.ready else None), f"{row.active}/{row.limit}",
                rate(row.rate), rate(row.error_rate), count(row.failed), count(row.retrying),
            ],
            [
                row.controller, controller_state(row), row.ready, row.delayed, row.oldest_ready_seconds, row.active,
                _optional(row.rate), _optional(row.error_rate), row.failed, row.retrying,
            ],
            details={**_details(row), "flows": [f"priority {f.priority}, {f.flow}: {f.ready}" for f in row.flows]},
            target=RowTarget(controller=row.controller, cluster=row.cluster, kind=row.kind, paused=bool(row.paused)),
            alarming=bool(row.problems or row.hot_loops or row.error_rate),
        )
        for row in sorted(state.controllers, key=_trouble)
    ]  # fmt: skip
    return Table(columns=columns, rows=tuple(rows))


def _trouble(row: ControllerSummary) -> tuple[int, int, int, str]:
    """Return the order of controllers: those with problems, retries and long queues first."""
    return -len(row.problems) - len(row.hot_loops), -row.retrying, -row.ready, row.controller


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


def _queues(state: TopState) -> Table:
    columns = (
        ConsoleColumn("CONTROLLER", minimum=8),
        ConsoleColumn("PRIORITY", right=True),
        ConsoleColumn("FLOW", minimum=8),
        ConsoleColumn("READY", right=True),
        ConsoleColumn("SHARE", right=True),
    )
    rows = []
    for controller in state.controllers:
        target = RowTarget(controller=controller.controller, cluster=controller.cluster, kind=controller.kind)
        for flow in controller.flows:
            share = flow.ready / controller.ready if controller.ready else 0.0
            cells = [controller.controller, str(flow.priority), flow.flow or "-", count(flow.ready), f"{share:.0%}"]
            order: list[float | str] = [controller.controller, flow.priority, flow.flow, flow.ready, share]
            rows.append(_row(cells, order, key="/".join(cells[:3]), details=_details(flow), target=target))
        if controller.more_flows:
            cells = [controller.controller, "", f"{controller.more_flows} more", "", ""]
            rows.append(_row(cells, [controller.controller, 0.0, "", 0.0, 0.0], key=f"{cells[0]}/more"))
    rows.sort(key=lambda row: -_optional(row.order[3] if isinstance(row.order[3], int | float) else 0.0))
    return Table(columns=columns, rows=tuple(rows))


def _running(state: TopState) -> Table:
    columns = (
        ConsoleColumn("CONTROLLER", minimum=8),
        ConsoleColumn("OBJECT", minimum=20),
        ConsoleColumn("FOR", right=True),
        ConsoleColumn("TRY", right=True),
        ConsoleColumn("PLACE", minimum=8),
    )
    rows = [
        _row(
            [row.controller, row.key, duration(row.seconds), str(row.attempt + 1), short_place(row.place) or "-"],
            [row.controller, row.key, row.seconds, row.attempt, row.place],
            key=f"{row.controller}/{row.key}",
            details=_details(row),
            target=_object_target(row),
            alarming=row.seconds >= STUCK_SECONDS,
        )
        for row in sorted(state.running, key=lambda row: -row.seconds)
    ]
    return Table(columns=columns, rows=tuple(rows))


def _retries(state: TopState) -> Table:
    columns = (
        ConsoleColumn("CONTROLLER", minimum=8),
        ConsoleColumn("OBJECT", minimum=20),
        ConsoleColumn("FAILED", right=True),
        ConsoleColumn("DUE", right=True),
        ConsoleColumn("PRIO", right=True),
        ConsoleColumn("LAST ERROR", minimum=8),
    )
    rows = [
        _row(
            [
                row.controller, row.key, str(row.attempts), duration(row.due_seconds), str(row.priority),
                row.error or "-",
            ],
            [row.controller, row.key, row.attempts, row.due_seconds, row.priority, row.error],
            key=f"{row.controller}/{row.key}",
            details=_details(row),
            target=_object_target(row),
            alarming=row.attempts >= MANY_ATTEMPTS,
        )
        for row in sorted(state.retries, key=lambda row: -row.attempts)
    ]  # fmt: skip
    return Table(columns=columns, rows=tuple(rows))


def _errors(state: TopState) -> Table:
    columns = (
        ConsoleColumn("AGO", right=True),
        ConsoleColumn("CONTROLLER", minimum=8),
        ConsoleColumn("OBJECT", minimum=20),
        ConsoleColumn("ERR", right=True),
        ConsoleColumn("NOW"),
        ConsoleColumn("ERROR", minimum=8),
    )
    rows = [
        _row(
            [
                duration(row.seconds_ago), row.controller, row.key, str(row.errors),
                "ok" if row.recovered else "fails", error_text(row.detail),
            ],
            [row.seconds_ago, row.controller, row.key, row.errors, str(row.recovered), row.detail],
            key=f"{row.controller}/{row.key}",
            details=_details(row),
            target=_object_target(row),
            alarming=not row.recovered,
        )
        for row in sorted(state.errors, key=lambda row: (row.recovered, row.seconds_ago))
    ]  # fmt: skip
    return Table(columns=columns, rows=tuple(rows))


def _slowest(state: TopState) -> Table:
    columns = (
        ConsoleColumn("CONTROLLER", minimum=8),
        ConsoleColumn("OBJECT", minimum=20),
        ConsoleColumn("TOTAL", right=True),
        ConsoleColumn("MAX", right=True),
        ConsoleColumn("WAITED", right=True),
        ConsoleColumn("RUNS", right=True),
        ConsoleColumn("ERR", right=True),
        ConsoleColumn("REQ", right=True),
        ConsoleColumn("LAST", minimum=8),
    )
    rows = [
        _row(
            [
                row.controller, row.key, duration(row.seconds), duration(row.max_seconds), duration(row.max_waited),
                count(row.reconciles), count(row.errors), count(row.requests), row.last_result,
            ],
            [
                row.controller, row.key, row.seconds, row.max_seconds, row.max_waited, row.reconciles, row.errors,
                row.requests, row.last_result,
            ],
            key=f"{row.controller}/{row.key}",
            details=_details(row),
            target=_object_target(row),
        )
        for row in sorted(state.slowest, key=lambda row: -row.seconds)
    ]  # fmt: skip
    return Table(columns=columns, rows=tuple(rows))


def _caches(state: TopState) -> Table:
    columns = (
        ConsoleColumn("CACHE", minimum=24),
        ConsoleColumn("STATE"),
        ConsoleColumn("AGE", right=True),
        ConsoleColumn("OBJECTS", right=True),
        ConsoleColumn("SIZE", right=True),
        ConsoleColumn("EV/s", right=True),
        ConsoleColumn("LISTS", right=True),
        ConsoleColumn("ERR", right=True),
        ConsoleColumn("LAST ERROR", minimum=8),
    )

    def order(cache: CacheRow) -> tuple[int, bool, int]:
        return _STATES_FIRST.get(cache.state, 4), not cache.failing_functions, -cache.size

    rows = [
        _row(
            [
                f"{cache.cluster}: {cache.name}" if cache.cluster else cache.name, cache.state,
                duration(cache.seconds_since_contact), count(cache.objects), size(cache.size), rate(cache.event_rate),
                count(cache.lists), count(cache.errors), cache.last_error or next(iter(cache.failing_functions), "-"),
            ],
            [
                f"{cache.cluster}: {cache.name}", cache.state, _optional(cache.seconds_since_contact), cache.objects,
                cache.size, _optional(cache.event_rate), cache.lists, cache.errors, cache.last_error,
            ],
            details=_details(cache),
            alarming=cache.state != "current" or bool(cache.failing_functions),
        )
        for cache in sorted(state.caches, key=order)
    ]  # fmt: skip
    return Table(columns=columns, rows=tuple(rows))


def _leases(state: TopState) -> Table:
    columns = (
        ConsoleColumn("LEASE", minimum=8),
        ConsoleColumn("STATE"),
        ConsoleColumn("HOLDER", minimum=8),
        ConsoleColumn("SINCE", right=True),
        ConsoleColumn("LEFT", right=True),
        ConsoleColumn("MESSAGE", minimum=8),
    )
    lead = state.leadership
    role = "leads" if lead.leading else "standby" if lead.election else lead.state or "unknown"
    rows = []
    if lead.election or not state.shards:
        name = (lead.lease or "leader election") if lead.election else "no leader election"
        cells = [name, role, lead.holder or "-", duration(lead.leading_seconds), duration(lead.expires_seconds), ""]
        order: list[float | str] = [
            name,
            role,
            lead.holder,
            _optional(lead.leading_seconds),
            _optional(lead.expires_seconds),
            "",
        ]
        rows.append(_row(cells, order, details=_details(lead), alarming=lead.election and not lead.holder))
    for shard in state.shards:
        message = f"{shard.reason} {shard.message}".strip()
        cells = [shard.shard, shard.state, shard.holder or "-", duration(shard.owned_seconds), "", message]
        order = [shard.shard, shard.state, shard.holder, _optional(shard.owned_seconds), -1.0, message]
        alarming = not shard.holder or shard.reason not in ("", "Connected")
        rows.append(_row(cells, order, details=_details(shard), alarming=alarming))
    return Table(columns=columns, rows=tuple(rows))


def _object_target(row: object) -> RowTarget:
    return RowTarget(
        **{name: getattr(row, name) for name in ("controller", "cluster", "kind", "namespace", "name")},
    )


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
