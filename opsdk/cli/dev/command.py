"""``opsdk dev``: runs the operator against a local API server and reloads it when its source changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.logging import RichHandler
from watchfiles import PythonFilter, awatch

from opsdk.aio.waiting import wait_ended
from opsdk.builder.operator import Operator
from opsdk.cli.apiserver import serving
from opsdk.cli.dev.console import render, view_of
from opsdk.cli.dev.reload import imported_again
from opsdk.cli.dev.reserved_port import reserved_port
from opsdk.cli.dev.session import DevSession, Reload
from opsdk.cli.loading import OperatorArgument, load_operator, operator_reference
from opsdk.cli.project import find_project, operator_namespace
from opsdk.cli.target import ContextOption, KubeconfigOption, TargetCluster
from opsdk.errors import UsageError
from opsdk.manager.process import run_program
from opsdk.manager.signals import stop_on_signals
from opsdk.rest.config import RestConfig
from opsdk.rest.load import load_config
from opsdk.telemetry.context import setup_logging
from opsdk.telemetry.missing_awaits import log_missing_awaits

_REFRESH_SECONDS = 0.5
# Seconds for the operator and its cluster to end after a signal.
_END_SECONDS = 10.0
# An editor writes several files at once: changes within this many milliseconds are one reload.
_DEBOUNCE_MS = 50


def dev(
    operator: OperatorArgument = "",
    *,
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster",
            help="use a cluster of the kubeconfig instead of a local server; it must reach webhooks at 127.0.0.1",
        ),
    ] = False,
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    controllers: Annotated[
        str, typer.Option(help="simulated controllers of the local server: none, cluster, or a comma-separated list")
    ] = "cluster",
    webhook_port: Annotated[int, typer.Option(min=1, max=65535, help="local port of the webhook server")] = 9443,
    debug_port: Annotated[
        int, typer.Option(min=0, max=65535, help="port of the debug pages that opsdk why reads; 0 disables them")
    ] = 6060,
    log_level: Annotated[str, typer.Option(help="log level: debug, info, warning or error")] = "info",
    plain: Annotated[bool, typer.Option("--plain", help="print log lines only, without the console")] = False,
    once: Annotated[bool, typer.Option("--once", help="exit when the operator runs, for scripts")] = False,
) -> None:
    """Apply the operator's CRDs, run the operator, and reload it when a file changes.

    opsdk dev

    opsdk dev greeter.py --plain
    """
    if not cluster and (context or kubeconfig is not None):
        raise UsageError("--context and --kubeconfig choose a cluster: add --cluster")
    reference = operator_reference(operator)
    project = find_project(Path.cwd())
    folder = project.folder if project is not None else Path.cwd()
    console = Console()
    live = console.is_terminal and not plain
    _log_to(console if live else None, log_level)
    sys.path.insert(0, str(folder))
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(reserved_port(debug_port)) if debug_port else 0
        target = TargetCluster(context, kubeconfig)
        config, title = stack.enter_context(_server(folder, target if cluster else None, controllers=controllers))
        if port != debug_port:
            title += f"\nport {debug_port} is taken: opsdk why --url http://127.0.0.1:{port}"
        session = DevSession(
            config,
            partial(_load, reference, folder),
            webhook_port=webhook_port,
            service_namespace=None if cluster else partial(operator_namespace, project),
            debug_port=port,
        )
        program = _Program(session, folder, console, title=title, live=live)
        run_program(run_until_signal(program.run(once=once)))


def _log_to(console: Console | None, log_level: str) -> None:
    """Log to a live console, or as usual. Raises `UsageError` for an unknown level."""
    level = logging.getLevelName(log_level.upper())
    if not isinstance(level, int):
        raise UsageError(f"the log level {log_level!r} is not valid: use debug, info, warning or error")
    if console is None:
        setup_logging(level)
    else:
        handler = RichHandler(console=console, show_path=False, markup=False)
        logging.basicConfig(level=level, format="%(name)s: %(message)s", handlers=[handler])
        log_missing_awaits()
    logging.getLogger("watchfiles").setLevel(logging.WARNING)


async def run_until_signal(work: Coroutine[object, None, None]) -> None:
    """Run until `work` ends, or SIGINT or SIGTERM comes. Then `work` has ten seconds to end; it may be left behind.

    A signal that the process was started with ignored counts too: shells start background jobs so.
    """
    working = asyncio.create_task(work, name="opsdk dev")
    stopped = asyncio.Event()
    with stop_on_signals(stopped.set):
        stopping = asyncio.create_task(stopped.wait(), name="opsdk dev/wait for a signal")
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            # `run_program` logs the position if it does not end.
            working.cancel()
            await wait_ended([working], _END_SECONDS)
        elif not working.cancelled():
            working.result()


@contextlib.contextmanager
def _server(folder: Path, cluster: TargetCluster | None, *, controllers: str) -> Iterator[tuple[RestConfig, str]]:
    """Start a server unless there is one; yields its configuration and the title of the console."""
    if cluster is not None:
        config = cluster.to_read()
        print(f"changes {config.host} ({config.source}), namespace {config.namespace}", file=sys.stderr)
        yield config, f"opsdk dev on {config.host}, {config.source}"
        return
    kubeconfig = folder / ".opsdk" / "kubeconfig"
    kubeconfig.parent.mkdir(exist_ok=True)
    with serving(kubeconfig, ["--port", "0", "--controllers", controllers]) as url:
        yield load_config(kubeconfig=kubeconfig), f"opsdk dev on {url}: export KUBECONFIG={kubeconfig}"


def _load(reference: str, folder: Path) -> Operator:
    with imported_again(folder):
        return load_operator(reference)


class _Program:
    """Runs the session and draws the console until the command ends."""

    def __init__(self, session: DevSession, folder: Path, console: Console, *, title: str, live: bool) -> None:
        self._session = session
        self._folder = folder
        self._console = console
        self._title = title
        self._show_console = live
        self._last_reload: Reload | None = None

    async def run(self, *, once: bool) -> None:
        """Run until cancelled."""
        async with self._session as session:
            self._print(self._title)
            self._show(await session.reload())
            if once:
                if self._last_reload is not None and self._last_reload.error is not None:
                    raise UsageError(self._last_reload.error)
                return
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch(session), name="opsdk dev/watch")
                if self._show_console:
                    group.create_task(self._draw(session), name="opsdk dev/console")

    async def _watch(self, session: DevSession) -> None:
        async for changes in awatch(
            self._folder, watch_filter=PythonFilter(), debounce=_DEBOUNCE_MS, step=_DEBOUNCE_MS
        ):
            names = sorted({Path(path).name for _, path in changes})
            self._show(await session.reload(), ", ".join(names))

    def _show(self, reload: Reload, reason: str = "") -> None:
        self._last_reload = reload
        self._print(f"{reload} ({reason})" if reason else str(reload))

    def _print(self, text: str) -> None:
        if not self._show_console:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    async def _draw(self, session: DevSession) -> None:
        with Live(console=self._console, auto_refresh=False) as live:
            while True:
                last, failure = self._last_reload, session.failure
                message = f"the operator stopped: {failure}" if failure is not None else str(last or "")
                failed = failure is not None or (last is not None and last.error is not None)
                view = view_of(session.operator, title=self._title, message=message, failed=failed)
                live.update(render(view), refresh=True)
                await asyncio.sleep(_REFRESH_SECONDS)
