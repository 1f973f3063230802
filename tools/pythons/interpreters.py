"""The interpreters of this machine: PATH, and the folders of pyenv and uv."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

WITH_PACKAGES = (
    "import ensurepip, platform, sys, sysconfig; "
    "print(platform.python_version() + ('t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))"
)
"""Prints the exact version. It fails where no virtual environment can be made."""


class MissingPythonError(Exception):
    """A Python cannot be had; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python that can run the tests.

    Attributes:
        version: the exact version, such as ``3.13.5``; ``3.14.0t`` has no global interpreter lock.
        origin: where it comes from, for the table.
        environment: the folder of its virtual environment, as the commands behind `prefix` see it.
        python: the interpreter that makes the environment; None if it exists already.
        prefix: the command that runs another one where the interpreter is; empty on this machine.
        root: the folder that its commands see as ``/``.
        variables: the environment variables of its processes; None for those of this process.
    """

    version: str
    origin: str
    environment: Path
    python: Path | None
    prefix: tuple[str, ...] = ()
    root: Path = Path("/")
    variables: Mapping[str, str] | None = None

    @property
    def stamp(self) -> Path:
        """The file that says what its environment has, as this process sees it."""
        return self.root / self.environment.relative_to("/") / ".installed-for-tests"


def series(version: str) -> str:
    """Return ``3.13`` for ``3.13.5`` and ``3.13``, and ``3.14t`` for ``3.14.0t``."""
    match = re.match(r"(\d+\.\d+)[^t]*(t?)$", version)
    if match is None:
        raise MissingPythonError(f"{version} names no Python: write 3.13, or 3.14t without the global interpreter lock")
    return match[1] + match[2]


def newest_first(folder: Path, pattern: str) -> list[Path]:
    """Return what matches a pattern in a folder, the highest version first."""
    return sorted(folder.glob(pattern), key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)], reverse=True)


def candidates(version: str, variables: Mapping[str, str], home: Path) -> Iterator[tuple[str, Path]]:
    """Yield where a Python may be, with the name of the place: PATH first, then the newest of pyenv and uv."""
    on_path = shutil.which(f"python{version}", path=variables.get("PATH", ""))
    if on_path is not None:
        yield "PATH", Path(on_path)
    number, threads = version.rstrip("t"), version.endswith("t")
    pyenv = Path(variables.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    for folder in newest_first(pyenv, f"{number}.*"):
        if folder.name.endswith("t") == threads:
            yield "pyenv", folder / "bin/python"
    uv = Path(variables.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python"))
    for folder in newest_first(uv, f"cpython-{number}.*"):
        if ("+freethreaded" in folder.name) == threads:
            yield "uv", folder / "bin/python"


def exact_version(*command: str | Path, variables: Mapping[str, str] | None = None) -> str:
    """Return the version of an interpreter. Raises `MissingPythonError` if it cannot make environments."""
    try:
        done = subprocess.run(  # noqa: S603 - an interpreter of this machine
            [*command, "-c", WITH_PACKAGES], env=variables, capture_output=True, text=True, check=False, timeout=60
        )
    except OSError as problem:
        raise MissingPythonError(str(problem)) from problem
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise MissingPythonError(f"{command[-1]}: {last}")
    return done.stdout.strip()


def running_interpreter() -> Interpreter:
    """Return the Python of this process, with the environment that it runs in."""
    environment = Path(sys.prefix)
    exact = exact_version(sys.executable)
    return Interpreter(version=exact, origin=environment.name, environment=environment, python=None)


def local_interpreter(version: str, cache: Path, variables: Mapping[str, str], home: Path) -> Interpreter:
    """Return an interpreter of this machine; its environment goes into `cache`."""
    problems = list[str]()
    for origin, python in candidates(version, variables, home):
        try:
            exact = exact_version(python)
        except MissingPythonError as problem:
            problems.append(str(problem))
            continue
        if series(exact) == version:
            return Interpreter(version=exact, origin=origin, environment=cache / version, python=python)
    raise MissingPythonError("; ".join(problems) or f"no python{version} in PATH, nor in the folders of pyenv and uv")
