"""Derives the outcome of a pod from its commands and images, because no containers run. Pure.

It interprets only ``sleep``, ``true``, ``false``, ``exit`` in a shell, and the pause image.
"""

from __future__ import annotations

import math
import re
import shlex
from typing import NamedTuple

from envtest.controllers.objects import controller_of
from opsdk.structured_merge.value import JsonObject

_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_INSTANT = frozenset({"echo", "printf", "date", "true", ":", "touch", "mkdir", "cat", "test", "ls", "hostname", "set"})
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_CONTROL = re.compile(r"[|&`$(){}<>]|\b(while|until|for|if|case|trap|exec|wait)\b")
_REFERENCE = re.compile(r"[a-zA-Z0-9][\w.:/@-]*")
_MISSING = re.compile(r"(^|[/:._-])invalid|does-?not-?exist|non-?existent|:404$")


class SimulatedProgram(NamedTuple):
    """The duration of a program in seconds, and its exit code."""

    seconds: float
    code: int = 0


def missing_image(pod: JsonObject) -> str:
    """Return the first image of a pod whose name simulates a failing pull; empty if all can be pulled."""
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    images = [str(container.get("image") or "") for container in containers]
    return next((image for image in images if _MISSING.search(image) or is_no_reference(image)), "")


def is_no_reference(image: str) -> bool:
    """Whether a text cannot name an image: the kubelet does not try to pull it."""
    return bool(image) and _REFERENCE.fullmatch(image) is None


def program_of(pod: JsonObject) -> SimulatedProgram | None:
    """Return the program of a pod, which ends with its last container; None if no command is interpreted.

    Containers with other commands end immediately in pods of jobs, and keep running in other pods.
    """
    programs = [_program(c) for c in pod["spec"].get("containers") or ()]
    if not any(programs):
        return None
    finite = (controller_of(pod) or {}).get("kind") == "Job"
    default = SimulatedProgram(0.0) if finite else SimulatedProgram(math.inf)
    ends = [p or default for p in programs]
    return SimulatedProgram(max(p.seconds for p in ends), next((p.code for p in ends if p.code), 0))


def _program(container: JsonObject) -> SimulatedProgram | None:
    words = [*map(str, container.get("command") or ()), *map(str, container.get("args") or ())]
    if not words:
        name = str(container.get("image") or "").rpartition("/")[2]
        return SimulatedProgram(math.inf) if re.match(r"pause\b", name) else None
    program = words[0].rpartition("/")[2]
    if program in _SHELLS:
        return _script(words[2]) if len(words) > 2 and re.fullmatch("-[a-z]*c", words[1]) else None
    return _statement([program, *words[1:]]) if program not in _INSTANT or program == "true" else None


def _script(text: str) -> SimulatedProgram | None:
    """Return the program of a shell script; None if it has other commands than the supported ones."""
    seconds, code, interpreted = 0.0, 0, False
    for line in re.split(r"(;|\n|&&)", text):
        if line == "&&" and code:
            break
        if not line.strip() or line in (";", "\n", "&&"):
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            return None
        if _CONTROL.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", line)):
            return None
        if not words:
            continue
        step = _statement(words)
        if step is None and words[0] not in _INSTANT:
            return None
        interpreted = interpreted or step is not None
        step = step or SimulatedProgram(0.0)
        seconds, code = seconds + step.seconds, step.code
        if words[0] == "exit":
            break
    return SimulatedProgram(seconds, code) if interpreted else None


def _statement(words: list[str]) -> SimulatedProgram | None:
    """Return the program of one shell statement; None if it is not simulated."""
    match words:
        case ["true"]:
            return SimulatedProgram(0.0)
        case ["false"]:
            return SimulatedProgram(0.0, 1)
        case ["exit"]:
            return SimulatedProgram(0.0)
        case ["exit", code] if code.isdecimal():
            return SimulatedProgram(0.0, int(code) & 255)
        case ["sleep", first, *more]:
            times = [_seconds(text) for text in (first, *more)]
            seconds = [t for t in times if t is not None]
            return SimulatedProgram(sum(seconds)) if len(seconds) == len(times) else SimulatedProgram(0.0, 1)
        case _:
            return None


def _seconds(text: str) -> float | None:
    if text in ("infinity", "inf"):
        return math.inf
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)", text)
    return None if match is None else float(match[1]) * _UNITS[match[2] or "s"]
