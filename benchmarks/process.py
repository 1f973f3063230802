"""Runs one client as a process and reads its messages."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.protocol import Options, Sample

ROOT = Path(__file__).resolve().parents[1]
PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
OWN_PYTHON = ROOT / ".venv" / "bin" / "python"
_ERROR_LINES = 15
_LINE_LIMIT = 1 << 26
"""Bytes: a result holds the latency of each event."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """How one process ended: a sample, or the reason why there is no sample.

    Attributes:
        sample: the measurement.
        skipped: why the client cannot run the workload.
        failed: the error, when it should have worked.
        errors: the last lines of standard error.
    """

    sample: Sample | None = None
    skipped: str = ""
    failed: str = ""
    errors: str = ""


def command_of(client: str) -> list[str]:
    """Return what starts a client: its module in its environment, or the program whose path `client` is."""
    if os.sep in client:
        return [client]
    return [str(python_of(client)), "-m", f"benchmarks.clients.{client}"]


def missing(program: str) -> str:
    """Return that a program does not exist, and what creates it; empty if it exists."""
    if Path(program).exists():
        return ""
    hint = ": make bench creates it" if program.startswith(f"{ROOT}/.venv") else ""
    return f"no {program.removeprefix(f'{ROOT}/')}{hint}"


def python_of(client: str) -> Path:
    """Return the interpreter of a client: opsdk's own environment, or that of its peers."""
    return OWN_PYTHON if client.startswith("opsdk") else PEERS_PYTHON


async def run_process(
    client: str,
    workload: str,
    options: Options,
    *,
    time_limit: float,
    during: Callable[[], Awaitable[None]] | None = None,
) -> Outcome:
    """Run a client until it ends, or kill it after `time_limit` seconds.

    Args:
        client: a module of `benchmarks.clients`, or the path of a program that speaks `benchmarks.protocol`.
        workload: the name that the client knows.
        options: passed to the client.
        time_limit: seconds.
        during: awaited when the client is ready, such as to change objects.
    """
    command = command_of(client)
    if reason := missing(command[0]):
        return Outcome(skipped=reason)
    return await run_command([*command, workload, json.dumps(options)], time_limit=time_limit, during=during)


async def run_command(
    command: Sequence[str],
    *,
    time_limit: float,
    path: Sequence[Path] = (ROOT,),
    during: Callable[[], Awaitable[None]] | None = None,
) -> Outcome:
    """Run a program that speaks `benchmarks.protocol` until it ends, or kill it.

    Args:
        command: program and arguments.
        time_limit: seconds.
        path: where its Python looks for modules first.
        during: awaited when the program is ready, such as to change objects.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        limit=_LINE_LIMIT,
    )
    assert process.stderr is not None
    errors = asyncio.ensure_future(process.stderr.read())
    try:
        async with asyncio.timeout(time_limit):
            outcome = await _converse(process, during)
            await process.wait()
    except TimeoutError:
        outcome = Outcome(failed=f"not done after {time_limit:.0f} s")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        text = (await errors).decode(errors="replace").strip().splitlines()
    outcome = outcome or Outcome(failed=f"exit status {process.returncode}: {text[-1] if text else 'no output'}")
    outcome.errors = "\n".join(text[-_ERROR_LINES:])
    return outcome


async def _converse(
    process: asyncio.subprocess.Process, during: Callable[[], Awaitable[None]] | None
) -> Outcome | None:
    assert process.stdout is not None
    outcome = None
    async with asyncio.TaskGroup() as group:
        async for line in process.stdout:
            if not line.startswith(b"{"):
                continue  # some libraries print
            message = json.loads(line)
            if "ready" in message and during is not None:
                group.create_task(_run(during))
            elif "result" in message:
                outcome = Outcome(sample=Sample(**message["result"]))
            elif "skipped" in message or "failed" in message:
                outcome = Outcome(**message)
    return outcome


async def _run(during: Callable[[], Awaitable[None]]) -> None:
    await during()
