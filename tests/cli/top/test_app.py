"""The console, driven as in a terminal of 80 columns and 24 lines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual", reason="needs the cli extra: pip install opsdk[cli]")

from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from opsdk.cli.top.actions import Actions
from opsdk.cli.top.app import TopApp
from opsdk.cli.top.client import DebugClient
from opsdk.cli.top.monitor import Monitor
from opsdk.cli.top.views import TopView
from opsdk.errors import ConfigError, ConnectError
from opsdk.rest.config import RestConfig
from tools.screenshot.pages import bad_night

pytestmark = pytest.mark.realtime


class FakeClient(DebugClient):
    """An operator whose pages the test chooses. It records the actions."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:6060", lambda: nullcontext("http://127.0.0.1:6060"))
        self.served: dict[str, Any] | None = bad_night()
        self.requests: list[tuple[str, str, str]] = []

    async def pages(self, names: Collection[str] | None = None) -> dict[str, object]:
        if self.served is None:
            raise ConnectError("connection \x1b[31mrefused")
        return {name: page for name, page in self.served.items() if names is None or name in names}

    async def reconcile(self, controller: str, namespace: str, name: str) -> str:
        self.requests.append((controller, namespace, name))
        return "queued"


class FakeActions(Actions):
    """Actions whose pauses are recorded in place of a cluster."""

    def __init__(self, client: DebugClient) -> None:
        super().__init__(client, lambda: RestConfig(host="https://cluster.example:6443"))
        self.pauses: list[tuple[str, str, bool]] = []

    async def pause(self, target: Any, config_map: str, *, paused: bool) -> str:
        self.pauses.append((str(target), config_map, paused))
        return "done"


class Screen:
    """The running console."""

    def __init__(self, app: TopApp, pilot: Pilot[None], client: FakeClient, actions: FakeActions) -> None:
        self.app, self.pilot, self.client, self.actions = app, pilot, client, actions
        self.seconds = 0.0

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until the console is idle."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def refresh(self) -> None:
        """Read the pages two seconds later."""
        self.seconds += 2
        await self.app.refresh_state()
        await self.pilot.pause()

    def text(self) -> list[str]:
        """The lines of the screen."""
        self.app.screen.refresh()
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    def words(self) -> str:
        """The words of the screen, whatever their lines."""
        return " ".join(
            word for line in self.text() for word in line.split() if word.isprintable() and word not in "│▌"
        )

    def rows(self) -> list[list[str]]:
        """The cells of the table."""
        table: DataTable[Any] = self.app.query_one(DataTable)
        return [[str(cell).strip() for cell in table.get_row_at(row)] for row in range(table.row_count)]

    def part(self, name: str) -> str:
        """The text of a line above the table."""
        return str(self.app.query_one(name, Static).render())


@asynccontextmanager
async def console(folder: Path | None = None) -> AsyncIterator[Screen]:
    """A console on a screen of 80 x 24, after its first state."""
    client = FakeClient()
    actions = FakeActions(client)
    screens: list[Screen] = []
    monitor = Monitor(client, now=lambda: screens[0].seconds)
    app = TopApp(monitor, actions, interval=0, folder=folder)
    async with app.run_test(size=(80, 24)) as pilot:
        screens.append(Screen(app, pilot, client, actions))
        await screens[0].refresh()
        yield screens[0]


async def test_problems_come_first_and_everything_fits() -> None:
    """A screen of 80 x 24 has the headline, the worst problems, the views, a table and the keys."""
    async with console() as screen:
        lines = screen.text()
        assert len(lines) == 24
        assert lines[0].startswith("shop-operator  shop-operator-7d9c5  leads for 9h")
        assert lines[1].startswith("!!7 cache secrets is stale")
        assert lines[5].strip() == "2 more problems: press a"
        assert lines[6].startswith("1controllers 2queues 3running")
        assert [line.split()[0] for line in lines[7:11]] == ["CONTROLLER", "website", "database", "backup"]
        assert "Reconcile" in lines[23]
        assert max(map(len, lines)) <= 80


async def test_each_view_has_a_key() -> None:
    """Digits and the tab key choose a view; its rows are those of the table."""
    async with console() as screen:
        for view in TopView:
            await screen.press(str(view.number))
            assert screen.app.view is view
            assert screen.rows()
            assert max(map(len, screen.text())) <= 80
        await screen.press("tab")
        assert screen.app.view is TopView.CONTROLLERS
        await screen.press("shift+tab")
        assert screen.app.view is TopView.LEASES


async def test_rates_need_a_second_state() -> None:
    """The first state has no rates, the second one has; a frozen console says so."""
    async with console() as screen:
        assert screen.rows()[0][6] == "-"
        screen.client.served = bad_night(later=True)
        await screen.refresh()
        assert screen.rows()[0][6:8] == ["14", "2.0"]
        await screen.press("space")
        assert screen.part("#head").rstrip().endswith("frozen")


async def test_a_lost_connection_is_shown_with_its_time() -> None:
    """The last state stays, with the time since which it is old; after a reconnect the note is gone."""
    async with console() as screen:
        screen.client.served = None
        await screen.refresh()
        await screen.refresh()
        assert "no connection for 2.0s" in screen.part("#head")
        assert screen.part("#problems").startswith("!!  connection \ufffd[31mrefused")
        assert screen.rows()[0][0] == "website"
        screen.client.served = bad_night()
        await screen.refresh()
        assert "no connection" not in screen.part("#head")


async def test_rows_are_sorted_filtered_and_kept_selected() -> None:
    """The order goes through the columns, a filter hides rows, and the cursor stays on its row."""
    async with console() as screen:
        await screen.press("3", "down")
        await screen.refresh()
        table: DataTable[Any] = screen.app.query_one(DataTable)
        assert table.cursor_row == 1
        await screen.press("s")
        assert [row[0] for row in screen.rows()] == ["website"] * 3 + ["database"]
        await screen.press("slash", *"orders", "enter")
        assert [row[1] for row in screen.rows()] == ["shop/orders"]
        assert screen.part("#tabs").endswith("/orders")
        await screen.press("escape")
        assert len(screen.rows()) == 4


async def test_details_show_the_whole_row() -> None:
    """Enter shows everything of a row, such as the stack of a reconcile; `a` shows all problems."""
    async with console() as screen:
        await screen.press("3", "enter")
        assert any("/app/shop/database.py:52 reconcile" in line for line in screen.text())
        await screen.press("escape", "a")
        text = "\n".join(screen.text())
        assert "4 of 4 workers are busy" in text
        await screen.press("escape")
        assert len(screen.app.screen_stack) == 1


async def test_refreshes_go_on_below_a_dialog() -> None:
    """A refresh while a dialog is open changes the table below it, also when the connection is lost."""
    async with console() as screen:
        await screen.press("3", "enter")
        screen.client.served = None
        await screen.refresh()
        screen.client.served = {**bad_night(), "running": []}
        await screen.refresh()
        await screen.press("escape")
        assert screen.rows() == []
        await screen.press("p", "r", "enter", "1")
        assert screen.rows()[0][0] == "website"


async def test_actions_are_for_the_selected_row(tmp_path: Path) -> None:
    """An object is reconciled at once; a pause needs a yes; a dump is a file that exists once."""
    async with console(tmp_path) as screen:
        await screen.press("r")
        assert screen.client.requests == [], "a whole controller is not reconciled"
        await screen.press("p", "n", "p")
        assert "Pause controller website in the cluster https://cluster.example:6443?" in screen.words()
        await screen.press("y")
        assert screen.actions.pauses == [("controller website", "shop/shop-pauses", True)]
        await screen.press("4", "r", "u", "y")
        assert screen.client.requests == [("website", "shop", "checkout")]
        assert screen.actions.pauses[1:] == [("website shop/checkout", "shop/shop-pauses", False)]
        await screen.press("d")
        await screen.app.workers.wait_for_complete()
        (file,) = list(tmp_path.iterdir())  # noqa: ASYNC240 - a small folder
        assert file.stat().st_mode & 0o777 == 0o600
        assert json.loads(file.read_text())["pages"] == bad_night()


async def test_a_pause_without_a_kubeconfig_is_an_error_and_not_the_end() -> None:
    """The console says what is missing, and continues."""

    def missing() -> str:
        raise ConfigError("no cluster configuration")

    async with console() as screen:
        screen.actions.cluster = missing  # type: ignore[method-assign]
        await screen.press("p")
        assert [note.message for note in screen.app._notifications] == ["no cluster configuration"]
        assert screen.actions.pauses == []


@pytest.mark.slow
async def test_hostile_pages_reach_no_terminal() -> None:
    """Escape sequences, markup and huge lists of a page are shown as texts, and the console stays usable."""
    hostile = "\x1b]0;owned\x07\x1b[31m[red]x[/red][@click=app.quit]\u202e\n" * 50
    keyed = {"controller": hostile, "namespace": hostile, "name": hostile, "kind": hostile}
    async with console() as screen:
        screen.client.served = {
            "process": {"operator": hostile, "host": hostile},
            "controllers": [{"controller": f"{n}{hostile}", "problems": [hostile] * 9} for n in range(5_000)],
            "running": [{**keyed, "seconds": 1e300, "place": hostile, "stack": [hostile] * 1000}] * 5_000,
            "retries": [{**keyed, "attempts": 10**400, "causes": [hostile]}] * 5_000,
            "errors": [{**keyed, "detail": hostile}] * 5_000,
            "informers": [{"name": hostile, "state": hostile, "last_error": hostile, "size": -5}] * 5_000,
        }
        await screen.refresh()
        for view in TopView:
            await screen.press(str(view.number), "enter", "escape")
            lines = screen.text()
            assert len(lines) == 24
            assert not any(char in line for line in lines for char in "\x1b\x07\u202e\r\n")
            assert len(screen.rows()) <= 100
        await screen.press("3")
        assert "[red]x[/red]" in screen.rows()[0][0] or "\ufffd" in screen.rows()[0][0]
        assert screen.app.is_running
