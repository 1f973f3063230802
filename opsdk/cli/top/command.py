"""``opsdk top``: a live console of an operator."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from opsdk.base.extras import RequiredExtra
from opsdk.cli.output import Output, OutputFormat, print_result
from opsdk.cli.target import ContextOption, KubeconfigOption, TargetCluster
from opsdk.cli.top.actions import Actions
from opsdk.cli.top.client import DebugClient
from opsdk.cli.top.monitor import Monitor
from opsdk.cli.top.problems import ProblemLevel
from opsdk.cli.top.tables import text_report
from opsdk.cli.top.targets import ForwardedClient, client_of, config_of
from opsdk.errors import UsageError

_DEFAULT_URL = "http://127.0.0.1:6060"
PROBLEMS_STATUS = 3
"""Exit status of ``--once`` for an operator with problems. 1 is an error of the command, 2 a wrong command line."""


def top(
    *,
    url: Annotated[
        str, typer.Option(envvar="OPSDK_DEBUG_URL", help="URL of the operator's debug pages")
    ] = _DEFAULT_URL,
    pod: Annotated[str, typer.Option(metavar="NAMESPACE/NAME", help="a Pod, through a port-forward")] = "",
    deployment: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="the leading Pod of a Deployment, through a port-forward")
    ] = "",
    port: Annotated[int, typer.Option(min=1, max=65535, help="port of the debug pages in the Pod")] = 6060,
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    interval: Annotated[float, typer.Option(min=0.2, max=3600, help="seconds between two refreshes")] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="print one state and end; status 3 if there are problems")
    ] = False,
    dump: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write all debug pages into a new file, as JSON, and end")
    ] = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Show what an operator does now, and what is wrong: queues, reconciles, retries, errors, caches, leases.

    opsdk top

    opsdk top --deployment shop/website-operator --context production

    opsdk top --once --output json

    opsdk top --pod shop/website-operator-7d9c --dump night.json
    """
    if pod and deployment:
        raise UsageError("--pod and --deployment are mutually exclusive: pass one of them")
    if once and dump is not None:
        raise UsageError("--once and --dump are mutually exclusive: pass one of them")
    if output is OutputFormat.JSON and not once:
        raise UsageError("--output json is the output of --once: pass both")
    config = config_of(TargetCluster(context, kubeconfig))
    forwarded = ForwardedClient(config, port)
    client = forwarded.pod(pod) if pod else forwarded.deployment(deployment) if deployment else client_of(url)
    actions = Actions(client, config)
    if dump is not None:
        print(asyncio.run(_dump(client, actions, dump)))
    elif once:
        raise typer.Exit(asyncio.run(_once(client, output)))
    else:
        asyncio.run(_run(client, actions, interval))


async def _dump(client: DebugClient, actions: Actions, path: Path) -> str:
    async with client:
        return await actions.dump(path)


async def _once(client: DebugClient, output: OutputFormat) -> int:
    """Print one state, and return the exit status."""
    monitor = Monitor(client)
    async with client:
        await monitor.refresh_or_raise()
    assert monitor.state is not None
    problems = [
        {"level": problem.level.name.lower(), "subject": problem.subject.value, "text": problem.text}
        for problem in monitor.problems
    ]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    lines = [f"{problem['level']:<8} {problem['text']}" for problem in problems] or ["no problems"]
    document = {"problems": problems, **msgspec.to_builtins(monitor.state)}
    print_result(output, document, text_report(monitor.state, lines, width))
    return PROBLEMS_STATUS if any(problem.level < ProblemLevel.INFO for problem in monitor.problems) else 0


async def _run(client: DebugClient, actions: Actions, interval: float) -> None:
    """Run the console. Raises the error of an operator that cannot be reached at the start."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("opsdk top needs a terminal: use --once in scripts")
    with RequiredExtra("cli", "opsdk top"):
        from opsdk.cli.top.app import TopApp  # noqa: PLC0415 - start-up time: --once needs no textual

    async with client:
        monitor = Monitor(client)
        await monitor.refresh_or_raise()
        await TopApp(monitor, actions, interval=interval).run_async()
