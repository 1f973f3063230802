"""Runs operators as processes against a local API server, until they have nothing more to do, and takes snapshots."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from opsdk.aio.clock import monotonic
from opsdk.apiserver.endpoints.audit import AuditEvent
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.engine.environments import import_envtest
from opsdk.engine.kubectl_apply import FIELD_OWNER, apply_as_kubectl
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.engine.writes import OWN_USERS, Entry
from opsdk.errors import OpsdkError, UsageError
from opsdk.recipes.definitions import apply_definitions
from opsdk.structured_merge.value import JsonObject

__all__ = ["EndState", "OperatorProgram", "run_programs", "start_program"]

_STEP: Final = 0.25
_STOP_SECONDS: Final = 15.0
_STARTED_SECONDS: Final = 3.0
"""Seconds after the first request: an operator that fails has ended by then."""
PYTHON_VARIABLES: Final = {"PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "0"}
"""Variables of the programs: sets have the same order in each."""
_LEASES: Final = "coordination.k8s.io/leases/"
_EVENTS: Final = ("core/events/", "events.k8s.io/events/")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProgram:
    """An operator to run.

    Attributes:
        name: for messages.
        command: its command line. The variable ``KUBECONFIG`` names the server.
        folder: where it runs.
    """

    name: str
    command: Sequence[str]
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class EndState:
    """The state after a program.

    Attributes:
        snapshot: all objects, with the values of Secrets.
        is_quiet: whether the program had stopped writing.
        written: number of objects that the program wrote.
        output: the last lines of the program.
    """

    snapshot: ClusterSnapshot
    is_quiet: bool
    written: int
    output: str


async def run_programs(
    programs: Sequence[OperatorProgram],
    definitions: Sequence[JsonObject],
    objects: Sequence[JsonObject],
    *,
    quiet: float,
    limit: float,
) -> list[EndState]:
    """Run programs one after the other on one server, and return the state after each.

    The objects are created after the first program has started.

    Args:
        programs: in this order.
        definitions: CustomResourceDefinitions.
        objects: examples.
        quiet: seconds without a write, after which a program has nothing more to do.
        limit: seconds after which a program is stopped in any case.

    Raises:
        UsageError: envtest is not installed, or a program ended by itself or cannot be started.
    """
    states = []
    async with _served() as (env, kubeconfig), Cluster(env.config) as admin:
        activity = _Activity()
        env.journal.subscribe(activity.on_write)
        await apply_definitions(admin.uncached, definitions, field_owner=FIELD_OWNER)
        waiting = list(objects)
        for program in programs:
            activity.written.clear()
            async with _running(program, kubeconfig) as process:
                await activity.settle(process, program, quiet=min(quiet, 3.0), limit=limit)
                for obj in waiting:
                    await _apply(admin.uncached, obj)
                waiting = []
                is_quiet = await activity.settle(process, program, quiet=quiet, limit=limit)
            snapshot = await take_snapshot(env.config, secret_values=True)
            written = len(activity.written)
            states.append(EndState(snapshot=snapshot, is_quiet=is_quiet, written=written, output=process.output))
    return states


async def start_program(program: OperatorProgram, definitions: Sequence[JsonObject], *, limit: float) -> str:
    """Start an operator on an empty server, and stop it again. Returns its last lines if it ended by itself, or "".

    Args:
        program: the operator.
        definitions: CustomResourceDefinitions.
        limit: seconds for its first request. An operator that sends none is started by then.

    Raises:
        UsageError: envtest is not installed, or the program cannot be started.
    """
    async with _served() as (env, kubeconfig), Cluster(env.config) as admin:
        await apply_definitions(admin.uncached, definitions, field_owner=FIELD_OWNER)
        env.audit.clear()
        async with _running(program, kubeconfig) as process:
            end, has_requested = monotonic() + limit, False
            while monotonic() < end and not process.has_ended:
                await asyncio.sleep(_STEP)
                if not has_requested and _has_request_of_program(env.audit):
                    has_requested, end = True, min(end, monotonic() + _STARTED_SECONDS)
            ended = process.has_ended
        return (process.output or "it ended without a word") if ended else ""


def _has_request_of_program(audit: Iterable[AuditEvent]) -> bool:
    """Whether a request came from outside: the simulated controllers send some at any time."""
    return any(event.user.name not in OWN_USERS for event in audit)


class _Activity:
    """When a program last wrote, and the objects that it wrote. Leases, Events and the examples do not count."""

    def __init__(self) -> None:
        self._last = monotonic()
        self.written: set[str] = set()

    def on_write(self, entry: Entry) -> None:
        if entry.writer.user in OWN_USERS or entry.key.startswith(_LEASES):
            return
        self._last = monotonic()
        if entry.writer.manager != FIELD_OWNER and not entry.key.startswith(_EVENTS):
            self.written.add(entry.key)

    async def settle(self, process: _Process, program: OperatorProgram, *, quiet: float, limit: float) -> bool:
        """Wait until nothing was written for some seconds. Returns False at the limit."""
        self._last = monotonic()
        end = monotonic() + limit
        while monotonic() - self._last < quiet:
            if process.has_ended:
                raise UsageError(f"{program.name} ended by itself: {' '.join(program.command)}\n{process.output}")
            if monotonic() >= end:
                return False
            await asyncio.sleep(_STEP)
        return True


class _Process:
    """A running program."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process, self._log = process, log
        self.output = ""

    @property
    def has_ended(self) -> bool:
        """Whether it ended."""
        if self._process.returncode is None:
            return False
        self.read_output()
        return True

    def read_output(self) -> None:
        """Keep the last lines of its log."""
        self.output = "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if it does not end in time."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self.read_output()


@asynccontextmanager
async def _running(program: OperatorProgram, kubeconfig: Path) -> Any:
    environ: Mapping[str, str] = {**os.environ, "KUBECONFIG": str(kubeconfig), **PYTHON_VARIABLES}
    log = kubeconfig.with_name("program.log")
    with log.open("wb") as output:
        try:
            process = await asyncio.create_subprocess_exec(
                *program.command, cwd=program.folder, env=environ, stdout=output, stderr=output
            )
        except OSError as error:
            raise UsageError(f"{program.name} cannot be started: {' '.join(program.command)}: {error}") from error
    running = _Process(process, log)
    try:
        yield running
    finally:
        await running.stop()


@asynccontextmanager
async def _served() -> Any:
    """Serve a local API server with simulated controllers; yield it with the path of its kubeconfig."""
    envtest = import_envtest("the proof runs the operators")
    with tempfile.TemporaryDirectory() as folder:
        async with envtest.Environment(controllers="cluster") as env:
            web = await env.serve(port=0)
            kubeconfig = Path(folder, "kubeconfig")
            kubeconfig.write_text(env.kubeconfig(web), encoding="utf-8")  # noqa: ASYNC240 - a few lines, once
            yield env, kubeconfig


async def _apply(client: Client, tree: JsonObject) -> None:
    try:
        await apply_as_kubectl(client, tree)
    except OpsdkError as error:
        name = f"{tree['kind']} {tree['metadata']['name']}"
        raise UsageError(f"the example {name} cannot be created: {error}") from error
