"""``opsdk apiserver``: runs the embedded control plane in its own process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from opsdk.errors import ConnectError, OpsdkError, UsageError
from opsdk.rest.load import load_config
from opsdk.rest.request import RestRequest
from opsdk.rest.start_failure import read_start_failure
from opsdk.rest.transport import Transport

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.1


def apiserver(
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[-- OPTIONS...]", help="more options of envtest serve")
    ] = None,
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0 selects a free one")] = 6443,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the admin kubeconfig to this file; with --wait: read it")
    ] = None,
    controllers: Annotated[
        str, typer.Option(help="simulated controllers: none, cluster, or a comma-separated list")
    ] = "cluster",
    command: Annotated[
        str,
        typer.Option("--exec", metavar="CMD", help="run a shell command with KUBECONFIG set, and exit with its status"),
    ] = "",
    wait: Annotated[bool, typer.Option("--wait", help="only wait until the server in the kubeconfig is ready")] = False,
) -> None:
    """Run a local Kubernetes API server until SIGTERM.

    opsdk apiserver --kubeconfig ./kubeconfig

    opsdk apiserver --kubeconfig ./kubeconfig --wait

    opsdk apiserver --exec 'kubectl get namespaces'
    """
    if wait:
        if command or more:
            raise UsageError("--wait does not start a server: remove --exec and the server options")
        wait_until_served(kubeconfig, _START_SECONDS)
        return
    if not command:
        arguments = ["--port", str(port), "--controllers", controllers, *(more or ())]
        arguments += ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
        os.execv(sys.executable, [sys.executable, "-m", "envtest", "serve", *arguments])  # noqa: S606 - no shell
    with tempfile.TemporaryDirectory(prefix="opsdk-") as folder:
        path = kubeconfig or Path(folder) / "kubeconfig"
        with serving(path, ["--port", "0", "--controllers", controllers, *(more or ())]):
            environment = {**os.environ, "KUBECONFIG": str(path)}
            status = subprocess.run(command, shell=True, env=environment, check=False).returncode  # noqa: S602 - the user's own command
    raise typer.Exit(status)


@contextmanager
def serving(kubeconfig: Path, arguments: Sequence[str]) -> Iterator[str]:
    """Run ``envtest serve`` around the block, which gets the server's URL.

    Raises:
        ConnectError: the server does not start; its error is above the message.
    """
    command = [sys.executable, "-m", "envtest", "serve", "--exit-with-parent", "--kubeconfig", str(kubeconfig)]
    command += arguments
    # Only this process handles Ctrl-C; it stops the server at the end.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as server:  # noqa: S603 - own program
        try:
            assert server.stdout is not None
            first = server.stdout.readline().strip()
            if not first.startswith("ready "):
                raise ConnectError(f"the API server exited with status {server.wait()}: see its error above")
            yield first.removeprefix("ready ")
        finally:
            server.terminate()
            try:
                server.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()


def wait_until_served(kubeconfig: Path | None, seconds: float) -> None:
    """Wait until the server in a kubeconfig is ready.

    Raises:
        ConnectError: the server could not start, or is not ready after `seconds`.
    """
    began = time.time()

    async def status() -> int:
        async with Transport(load_config(kubeconfig=kubeconfig)) as transport:
            return (await transport.send(RestRequest("GET", "/readyz"), timeout=5.0, retry=False)).status

    deadline, reason = time.monotonic() + seconds, ""
    while True:
        try:
            code = asyncio.run(status())
            if code == 200:
                return
            reason = f"/readyz returns {code}"
        except OpsdkError as error:
            reason = str(error)
        if kubeconfig is not None and (failure := read_start_failure(kubeconfig, since=began)):
            raise ConnectError(f"the API server could not start: {failure}")
        if time.monotonic() > deadline:
            raise ConnectError(f"the API server is not ready after {seconds:g} s: {reason}")
        time.sleep(_POLL_SECONDS)
