"""The package of an operator in a container image, for ``opsdk plan --against image:NAME``.

Only the package is copied, because the image of an operator has neither ``opsdk plan`` nor the local API server.
"""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import Final

from opsdk.cli.plan.processes import FinishedProgram, OtherVersionError, run_program

__all__ = ["copy_package"]

_PROGRAMS: Final = ("docker", "podman")
_FIND: Final = """
import importlib.util, sys

spec = importlib.util.find_spec(sys.argv[1])
if spec is not None:
    print((spec.submodule_search_locations or [spec.origin])[0])
"""
"""Prints the folder of a package, or the file of a module. It runs in the image, on old versions of Python too."""


def copy_package(image: str, package: str, target: Path, *, timeout: float) -> None:
    """Copy a package or a module out of an image. A program of the image finds it; its code is not run.

    Args:
        image: its name, as docker and podman know it; it is pulled if it is not here.
        package: the top-level package.
        target: an empty folder, which gets it.
        timeout: seconds for each program that is run.

    Raises:
        OtherVersionError: there is no such image, or it has no such package.
    """
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        raise OtherVersionError("neither docker nor podman is installed: install one, or name a wheel")
    # An image must not be an option of the program.
    if not image or image.startswith("-"):
        raise OtherVersionError("there is no such image: write image:NAME:TAG")

    def run(*words: str) -> FinishedProgram:
        return run_program([program, *words], folder=target, timeout=timeout)

    python = ("run", "--rm", "--network", "none", "--entrypoint", "python")
    place = _printed(run(*python, image, "-c", _FIND, package), "does not run its python")
    if not place:
        raise OtherVersionError(f"the image has no module {package}: name another operator, as MODULE:NAME")
    container = _printed(run("create", image), "cannot be opened")
    try:
        _printed(run("cp", f"{container}:{place}", str(target / PurePosixPath(place).name)), "cannot be read")
    finally:
        run("rm", container)


def _printed(finished: FinishedProgram, problem: str) -> str:
    """Return the last line that a program printed. Raises `OtherVersionError` if it failed."""
    if finished.status:
        raise OtherVersionError(f"the image {problem}: {finished.reason}")
    return next(reversed(finished.output.split("\n")[:-1]), "").strip()
