"""The two trees that are compared: the working tree, and an older commit in the clone's cache."""

from __future__ import annotations

import compileall
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.process import ROOT, run_command
from benchmarks.protocol import Options, Sample

__all__ = ["RatioError", "Tree", "measure", "reference_tree", "working_tree"]

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


def working_tree() -> Tree:
    """Return the tree of this clone. It is compiled: where Python writes no bytecode, edited modules start slowly."""
    compileall.compile_dir(ROOT / "opsdk", quiet=1)
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
    tree: Tree, row: str, options: Options, *, during: Callable[[], Awaitable[None]] | None = None
) -> Sample:
    """Run one process of a tree.

    Args:
        tree: whose `opsdk` it imports.
        row: a workload of `benchmarks.ratio.worker`.
        options: of the row.
        during: awaited when the process says that it is ready.
    """
    # As a file: with -m, Python would look into the working directory first.
    command = [sys.executable, str(_WORKER), row, json.dumps(options)]
    outcome = await run_command(command, time_limit=_SECONDS, path=(tree.path, ROOT), during=during)
    if outcome.sample is None:
        raise RatioError(f"{tree.name}: {row}: {outcome.failed}\n{outcome.errors}")
    return outcome.sample
