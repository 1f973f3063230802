"""The two trees that are compared: the working tree, and an older commit in the clone's cache."""

from __future__ import annotations

import asyncio
import compileall
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.process import ROOT

__all__ = ["Measured", "RatioError", "Tree", "measure", "reference_tree", "working_tree"]

_CACHE: Final = ROOT / ".cache" / "ratio"
_WORKER: Final = Path(__file__).parent / "worker.py"
_SECONDS: Final = 180.0
"""Until a process is killed."""


class RatioError(Exception):
    """A tree cannot be had, or a process failed."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A tree with the package `opsdk`.

    Attributes:
        name: for messages, and of the namespace of its objects.
        path: put before everything else on the path of imports.
    """

    name: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one process measured.

    Attributes:
        cpu: user and system seconds.
        count: operations, by which `cpu` is divided.
        resident: KiB at the end.
    """

    cpu: float
    count: float
    resident: int

    @property
    def each(self) -> float:
        """CPU milliseconds of one operation."""
        return 1000.0 * self.cpu / self.count


def working_tree() -> Tree:
    """Return the tree of this clone."""
    return Tree(name="head", path=ROOT)


def reference_tree(commit: str) -> Tree:
    """Return the package of a commit, unpacked once. Raises `RatioError` if the clone does not have the commit."""
    folder = _CACHE / commit
    if not folder.exists():
        archive = subprocess.run(
            ["git", "archive", commit, "opsdk"],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
        if archive.returncode:
            problem = archive.stderr.decode().strip()
            raise RatioError(f"the clone has no commit {commit}: fetch its whole history ({problem})")
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(partial, filter="data")
        partial.rename(folder)
    compileall.compile_dir(folder, quiet=1)
    return Tree(name="reference", path=folder)


async def measure(
    tree: Tree, row: str, options: dict[str, Any], *, during: Callable[[], Awaitable[None]] | None = None
) -> Measured:
    """Run one process of a tree.

    Args:
        tree: whose `opsdk` it imports.
        row: a function of `benchmarks.ratio.worker`.
        options: of the row.
        during: awaited when the process says that it is ready.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(_WORKER), row, json.dumps(options)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=tree.path,
        env={**os.environ, "PYTHONPATH": str(tree.path), "PYTHONHASHSEED": "0"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.ensure_future(process.stderr.read())
    measured: Measured | None = None
    try:
        async with asyncio.timeout(_SECONDS):
            async for line in process.stdout:
                message = json.loads(line)
                if "ready" in message and during is not None:
                    await during()
                elif "cpu" in message:
                    measured = Measured(**message)
            await process.wait()
    except TimeoutError:
        process.kill()
    text = (await errors).decode(errors="replace").strip()
    if measured is None:
        raise RatioError(f"{tree.name}: {row} failed with status {process.returncode}:\n{text[-2000:]}")
    return measured
