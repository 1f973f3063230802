"""The console: a thin textual application around `Monitor` and the pure tables."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from opsdk.aio.clock import utc_now
from opsdk.cli.top.actions import Actions, dump_name
from opsdk.cli.top.formats import duration
from opsdk.cli.top.monitor import Monitor
from opsdk.cli.top.problems import ProblemLevel, TopProblem
from opsdk.cli.top.state import TopState
from opsdk.cli.top.tables import Table, TableRow, fit, headline, table_of
from opsdk.cli.top.untrusted import clean
from opsdk.cli.top.views import TopView
from opsdk.errors import OpsdkError

# Lines for problems on a screen of 24 lines.
_MAX_PROBLEMS = 5
# Rows that a table shows: more cannot be read, and each costs time at every refresh.
_MAX_ROWS = 100
_STYLES = {ProblemLevel.ERROR: "bold red", ProblemLevel.WARNING: "yellow", ProblemLevel.INFO: "cyan"}
_MARKS = {ProblemLevel.ERROR: "!!", ProblemLevel.WARNING: " !", ProblemLevel.INFO: "  "}


class _Details(ModalScreen[None]):
    """Everything that is known about a row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss(None)", "Close"),
    ]

    def __init__(self, title: str, lines: tuple[str, ...]) -> None:
        super().__init__()
        self._title = title
        self._lines = lines

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog"):
            yield Static(Text(self._title, style="bold"), markup=False)
            yield Static(Text("\n".join(self._lines)), markup=False)


class _Confirm(ModalScreen[bool]):
    """A question before a change in the cluster."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape,q", "dismiss(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog small"):
            yield Static(Text(self._question), markup=False)
            yield Static(Text("y: yes   n: no", style="bold"), markup=False)


class TopApp(App[None]):
    """The console of one operator.

    Args:
        monitor: has the state.
        actions: acts on the selected row.
        interval: seconds between two refreshes; 0 for none, so that a test decides.
        folder: where dumps are written.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: 1; background: $panel; }
    #problems { height: auto; max-height: 6; }
    #tabs { height: 1; background: $panel; }
    #table { height: 1fr; }
    #filter { height: 1; border: none; display: none; }
    #filter.open { display: block; }
    .dialog { width: 90%; height: 80%; border: round $accent; background: $surface; padding: 0 1; }
    .dialog.small { width: 70; height: auto; }
    _Details, _Confirm { align: center middle; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "reconcile", "Reconcile"),
        Binding("p", "pause(True)", "Pause"),
        Binding("u", "pause(False)", "Unpause"),
        Binding("d", "dump", "Dump"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("space", "freeze", "Freeze"),
        Binding("q", "quit", "Quit"),
        *(Binding(str(view.number), f"show({view.value!r})", view.value, show=False) for view in TopView),
        Binding("tab,right", "turn(1)", "Next view", show=False, priority=True),
        Binding("shift+tab,left", "turn(-1)", "Previous view", show=False, priority=True),
        Binding("a", "problems", "All problems", show=False),
        Binding("escape", "clear_filter", "Clear filter", show=False),
    ]

    def __init__(
        self, monitor: Monitor, actions: Actions, *, interval: float = 2.0, folder: Path | None = None
    ) -> None:
        super().__init__()
        self.monitor = monitor
        self.view = TopView.CONTROLLERS
        self.frozen = False
        self._actions = actions
        self._interval = interval
        self._folder = folder or Path.cwd()
        self._filter_text = ""
        # The column and direction of the order; None for the order of the view.
        self._order: tuple[int, bool] | None = None
        self._rows: list[TableRow] = []
        self._hidden = 0
        self._refreshing = asyncio.Lock()

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield Static(id="problems", markup=False)
        yield Static(id="tabs", markup=False)
        yield DataTable(id="table", cursor_type="row", cell_padding=1)
        yield Input(id="filter", placeholder="filter", compact=True)
        yield Footer()

    async def on_mount(self) -> None:
        """Show the first state, and then refresh it."""
        self._draw()
        self.query_one(DataTable).focus()
        if self._interval:
            self.run_worker(self._refresh_forever(), name="refresh", exclusive=True)

    async def _refresh_forever(self) -> None:
        while True:
            if not self.frozen:
                await self.refresh_state()
            await asyncio.sleep(self._interval)

    async def refresh_state(self) -> None:
        """Read the pages and show them."""
        async with self._refreshing:
            await self.monitor.refresh()
        self._draw()

    def on_resize(self) -> None:
        """Fit the table to the new width."""
        self._draw()

    # -------------------------------------------------------------- drawing
    def _draw(self) -> None:
        state = self.monitor.state
        self.query_one("#head", Static).update(self._head(state))
        self.query_one("#problems", Static).update(self._problems())
        if state is not None:
            self._draw_table(self._table(state))
        self.query_one("#tabs", Static).update(self._tabs())

    def _head(self, state: TopState | None) -> Text:
        """Return the headline, with what is wrong with the connection at its end."""
        width = self.size.width
        title = "opsdk top" if state is None else headline(state)
        lost = self.monitor.lost_seconds
        if lost is not None:
            note, style = f" no connection for {duration(lost)} ", "bold white on red"
        elif self.frozen:
            note, style = " frozen ", "reverse"
        else:
            note, style = "", ""
        return Text.assemble((fit(title, max(width - len(note), 0)), "bold"), (note, style))

    def _problems(self) -> Text:
        lines: list[tuple[str, str]] = []
        if self.monitor.lost_since is not None:
            lines.append((f"!!  {clean(self.monitor.error)}", _STYLES[ProblemLevel.ERROR]))
        elif self.monitor.state is None:
            return Text(f"connecting to {self.monitor.client.name} ...")
        lines += [_problem_line(problem) for problem in self.monitor.problems]
        if not lines:
            return Text("no problems", style="green")
        if len(lines) > _MAX_PROBLEMS:
            more = len(lines) - _MAX_PROBLEMS + 1
            lines = [*lines[: _MAX_PROBLEMS - 1], (f"    {more} more problems: press a", "dim")]
        width = self.size.width
        return Text("\n").join(Text(fit(line, width).rstrip(), style=style) for line, style in lines)

    def _tabs(self) -> Text:
        parts: list[tuple[str, str]] = []
        for view in TopView:
            style = "reverse bold" if view is self.view else ""
            parts += [(f"{view.number}{view.value}", style), (" ", "")]
        if self._hidden:
            parts.append((f"{_MAX_ROWS} of {_MAX_ROWS + self._hidden} rows ", "dim"))
        if self._filter_text:
            parts.append((f"/{self._filter_text}", "yellow"))
        return Text.assemble(*parts)

    def _table(self, state: TopState) -> Table:
        table = table_of(self.view, state)
        if self._filter_text:
            table = table.filtered(self._filter_text)
        if self._order is not None:
            table = table.sorted_by(self._order[0], descending=self._order[1])
        return table

    def _draw_table(self, table: Table) -> None:
        """Replace the rows, and keep the cursor on the row of the same key."""
        widget = self.query_one(DataTable)
        selected = self._selected()
        self._rows = list(table.rows[:_MAX_ROWS])
        self._hidden = len(table.rows) - len(self._rows)
        # One cell of padding on both sides of each column, and the scroll bar.
        widths = table.widths(max(self.size.width - 2, 20))
        widget.clear(columns=True)
        for index, (column, width) in enumerate(zip(table.columns, widths, strict=True)):
            mark = "" if self._order is None or self._order[0] != index else "↓" if self._order[1] else "↑"
            widget.add_column(Text(fit(f"{mark}{column.title}", width, column.right)), width=width)
        for row in self._rows:
            style = "red" if row.alarming else ""
            cells = zip(row.cells, widths, table.columns, strict=True)
            widget.add_row(*(Text(fit(cell, width, column.right), style=style) for cell, width, column in cells))
        if selected is not None:
            keys = [row.key for row in self._rows]
            place = keys.index(selected.key) if selected.key in keys else min(widget.cursor_row, len(keys) - 1)
            widget.move_cursor(row=max(place, 0))

    def _selected(self) -> TableRow | None:
        row = self.query_one(DataTable).cursor_row
        return self._rows[row] if 0 <= row < len(self._rows) else None

    # -------------------------------------------------------------- views
    def action_show(self, view: str) -> None:
        """Show another view."""
        if TopView(view) is not self.view:
            self._order = None
            self._rows = []
        self.view = TopView(view)
        self._draw()

    def action_turn(self, step: int) -> None:
        """Show the next view, or the one before."""
        views = list(TopView)
        self.action_show(views[(views.index(self.view) + step) % len(views)].value)

    def action_freeze(self) -> None:
        """Stop and continue the refreshes."""
        self.frozen = not self.frozen
        self._draw()

    def action_sort(self) -> None:
        """Sort by the next column, the largest first; after the last one, as the view does."""
        if self.monitor.state is None:
            return
        columns = len(table_of(self.view, self.monitor.state).columns)
        column = 0 if self._order is None else self._order[0] + 1
        self._order = (column, True) if column < columns else None
        self._draw()

    def action_filter(self) -> None:
        """Open the line for a filter."""
        line = self.query_one("#filter", Input)
        line.add_class("open")
        line.value = self._filter_text
        line.focus()

    def action_clear_filter(self) -> None:
        """Show all rows."""
        self._close_filter("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Use the filter."""
        self._close_filter(event.value)

    def _close_filter(self, text: str) -> None:
        self._filter_text = clean(text, 100)
        self.query_one("#filter", Input).remove_class("open")
        self.query_one(DataTable).focus()
        self._draw()

    def on_data_table_row_selected(self) -> None:
        """Show the details of a row."""
        if (row := self._selected()) is not None and row.details:
            self.push_screen(_Details(str(row.target or row.cells[0]), row.details))

    def action_problems(self) -> None:
        """Show all problems as a whole."""
        lines = tuple(_problem_line(problem)[0] for problem in self.monitor.problems)
        self.push_screen(_Details("problems", lines or ("no problems",)))

    # -------------------------------------------------------------- actions
    def action_reconcile(self) -> None:
        """Reconcile the selected object now."""
        if (row := self._selected()) is not None and (target := row.target) is not None:
            self._act(lambda: self._actions.reconcile(target))

    def action_pause(self, paused: bool) -> None:
        """Pause or resume the selected object or controller, after a question."""
        row = self._selected()
        if row is None or (target := row.target) is None or self.monitor.state is None:
            return
        config_map = self.monitor.state.pause_config_map

        def answered(confirmed: bool | None) -> None:
            if confirmed:
                self._act(lambda: self._actions.pause(target, config_map, paused=paused))

        try:
            cluster = clean(self._actions.cluster())
        except OpsdkError as error:
            self._say(str(error), is_error=True)
            return
        verb = "Pause" if paused else "Resume"
        self.push_screen(_Confirm(f"{verb} {target} in the cluster {cluster}?"), answered)

    def action_dump(self) -> None:
        """Write all pages into a file."""
        state = self.monitor.state
        name = dump_name(state.process.operator if state is not None else "", utc_now())
        self._act(lambda: self._actions.dump(self._folder / name))

    def _act(self, action: Callable[[], Awaitable[str]]) -> None:
        async def run() -> None:
            try:
                self._say(await action())
            except OpsdkError as error:
                self._say(str(error), is_error=True)

        self.run_worker(run(), name="action")

    def _say(self, text: str, *, is_error: bool = False) -> None:
        self.notify(clean(text, 500), severity="error" if is_error else "information", timeout=8, markup=False)


def _problem_line(problem: TopProblem) -> tuple[str, str]:
    """Return the line of a problem, with the digit of its view, and its style."""
    return f"{_MARKS[problem.level]}{problem.view.number} {problem.text}", _STYLES[problem.level]
