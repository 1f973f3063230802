"""Sessions with a command line program, written down as they should go.

::

    = web.yaml
    | kind: ConfigMap
    $ create -f web.yaml
    configmap/a created
    $ get pods/none
    [1]
    ! Error from server (NotFound): pods "none" not found

``= name`` with ``|`` lines writes a file, ``$`` runs the program, ``[1]`` is the status it ends with (0 unless said),
``!`` goes before lines of stderr. Everything that is printed must be there. ``...`` in a line stands for some text, on
a line of its own for some lines; how much space is between words does not count. ``#`` begins a comment.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path


@dataclass(slots=True)
class Step:
    """A file to write, or a command with what is expected of it."""

    line: int
    file: str = ""
    command: str = ""
    status: int = 0
    body: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


GO_ENVIRONMENT = {"GOGC": "off"}
"""For kubectl: garbage collection takes a fifth of the CPU time of a process that lives for 0.1 s."""

Run = Callable[[Sequence[str]], tuple[int, str, str]]
"""Runs the program with arguments; its status, stdout and stderr."""


def parse(text: str) -> list[Step]:
    """The steps of a transcript."""
    steps: list[Step] = []
    for number, line in enumerate(text.splitlines(), 1):
        mark, rest = line[:2], line[2:]
        if mark in ("", "# "):
            continue
        if mark == "= ":
            steps.append(Step(number, file=rest))
        elif mark == "$ ":
            steps.append(Step(number, command=rest))
        elif mark == "! ":
            steps[-1].errors.append(rest)
        elif re.fullmatch(r"\[\d+\]", line):
            steps[-1].status = int(line[1:-1])
        else:
            steps[-1].body.append(rest if mark == "| " else line)
    return steps


def squeezed(text: str) -> list[str]:
    """The lines that say something, with one space between words."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _pattern(lines: Sequence[str]) -> str:
    parts = []
    for line in squeezed("\n".join(lines)):
        if line == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(".*?".join(map(re.escape, line.split("..."))) + r"\n")
    return "".join(parts)


def fits(expected: Sequence[str], printed: str) -> bool:
    r"""Whether output is as it was expected.

    >>> fits(["a  b", "..."], "a b\nc\nd\n"), fits(["a...c"], "a b c\n"), fits(["a"], "a\nb\n")
    (True, True, False)
    """
    return re.fullmatch(_pattern(expected), "".join(f"{line}\n" for line in squeezed(printed))) is not None


@cache
def kubectl_minor() -> int:
    """The minor version of the kubectl that is installed."""
    completed = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"], capture_output=True, check=True, timeout=60
    )
    return int(json.loads(completed.stdout)["clientVersion"]["minor"].rstrip("+"))


def assert_session(text: str, run: Run, folder: Path, *, words: bool = True) -> None:
    """Go through a transcript, in a folder for its files; without `words`, only how commands end counts.

    Raises:
        AssertionError: something went otherwise.
    """
    wrong = []
    for step in parse(text):
        if step.file:
            (folder / step.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / step.file).write_text("\n".join(step.body) + "\n")
            (folder / step.file).chmod(0o755)
            continue
        status, out, err = run(shlex.split(step.command))
        fine = not words or (fits(step.body, out) and fits(step.errors, err))
        if status != step.status or not fine:
            message = [f"[{status}]", *squeezed(out), *(f"! {line}" for line in squeezed(err))]
            wrong.append("\n".join([f"line {step.line}: $ {step.command}", *message]))
    assert not wrong, "\n\n".join(wrong)
