"""What the code of an operator takes from outside of its recording: the system's time and chance, other clients.

It reads the code of the operator's modules when a recording begins, and calls nothing.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import dis
import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

__all__ = ["UNRECORDED_ADVICE", "unrecorded_calls"]

UNRECORDED_ADVICE: Final = (
    "take the time of Context.now, numbers of the module random, wrap clients with "
    "opsdk.recording.calls.record_calls, and pass httpx.AsyncClient a transport of opsdk.recording.httpx_transport"
)
"""How a recording gets these results."""

_SOURCES: Final[Mapping[Any, str]] = {
    asyncio.to_thread: "asyncio.to_thread",
    dt.date.today: "date.today",
    dt.datetime.now: "datetime.now",
    dt.datetime.utcnow: "datetime.utcnow",
    os.urandom: "os.urandom",
    time.time: "time.time",
    time.time_ns: "time.time_ns",
    uuid.uuid1: "uuid.uuid1",
    uuid.uuid4: "uuid.uuid4",
}
"""Functions whose results no recording has. Those of `secrets` are left out: a replay compares no hidden values."""
_CLIENTS: Final = frozenset({"aiohttp", "boto3", "httpx", "requests", "urllib3"})
"""Packages whose requests no recording has."""
_RECORDED: Final = ("opsdk.recording.httpx_transport", "httpx")
"""A module of opsdk, and the package whose requests a recording has if an operator uses it."""
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})


def unrecorded_calls(modules: Iterable[str]) -> tuple[str, ...]:
    """Return the functions that modules use and no recording has, each with the first line that uses it.

    Args:
        modules: names of imported modules. One that is not imported is left out.

    >>> unrecorded_calls(["opsdk.recording.unrecorded"])
    ()
    """
    first: dict[str, str] = {}
    for name in sorted(set(modules)):
        if (module := sys.modules.get(name)) is not None:
            recorded = _recorded_clients(module)
            for function in _functions(module):
                for label, place in _calls(function.__code__, function.__globals__):
                    if label not in recorded:
                        first.setdefault(label, place)
    return tuple(f"{label} ({place})" for label, place in sorted(first.items()))


def _recorded_clients(module: ModuleType) -> frozenset[str]:
    """Return the labels of clients whose requests a module records."""
    source, package = _RECORDED
    values = list(vars(module).values())
    is_used = any(source in (getattr(each, "__module__", ""), getattr(each, "__name__", "")) for each in values)
    return frozenset({_requests_of(package)}) if is_used else frozenset()


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions of a module, and those of its classes."""
    for value in list(vars(module).values()):
        members = list(vars(value).values()) if isinstance(value, type) else [value]
        for each in members:
            function = getattr(each, "__func__", each)
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield function


def _calls(code: CodeType, names: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a function and the functions in it use, with file and line."""
    value: Any = None
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        if instruction.positions is not None and instruction.positions.lineno is not None:
            line = instruction.positions.lineno
        if instruction.opname in _GLOBALS:
            value = names.get(instruction.argval)
        elif instruction.opname in _ATTRIBUTES and isinstance(value, ModuleType | type):
            value = getattr(value, instruction.argval, None)
        else:
            value = None
        if label := _label(value):
            yield label, f"{Path(code.co_filename).name}:{line}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _calls(constant, names)


def _label(value: Any) -> str:
    """Return the name of what no recording has; empty for another value."""
    try:
        label = _SOURCES.get(value, "")
    except TypeError:  # a value without a hash
        return ""
    if label:
        return label
    package = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    top = package.partition(".")[0] if isinstance(package, str) else ""
    return _requests_of(top) if top in _CLIENTS else ""


def _requests_of(package: str) -> str:
    return f"requests of {package}"
