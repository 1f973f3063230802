"""A server process and operator processes, for the runs with real processes."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Stage:
    """Operator processes for one server process.

    Attributes:
        folder: of the kubeconfig and the logs.
        kubeconfig: of the server.
        operators: the running processes by name. They are killed when the stage ends.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.operators: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, module: str, name: str, *, kubeconfig: Path | None = None) -> None:
        """Start ``python -m MODULE NAME``. Its identities begin with `name`."""
        env = {**os.environ, "KUBECONFIG": str(kubeconfig or self.kubeconfig), "HOSTNAME": name}
        with (self.folder / f"{name}.log").open("wb") as log:
            self.operators[name] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, name), cwd=ROOT, stderr=log, env=env
            )

    def log(self, name: str) -> str:
        """Return what an operator has logged."""
        return (self.folder / f"{name}.log").read_text()


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Start a server. Every process ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        this = Stage(Path(folder))
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "envtest", "serve", "--port", "0", "--kubeconfig", str(this.kubeconfig)),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert server.stdout is not None
            await server.stdout.readline()
            yield this
        finally:
            for process in (*this.operators.values(), server):
                if process.returncode is None:
                    process.kill()
                    await process.wait()
