"""What an operator and its doubles keep in variables, as plain values. Pure.

A reconciler can keep values in its closure, in global variables of its package, and in objects that these refer to.
Times are left out, and so is what the server assigns.
"""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, time, timedelta
from typing import Any, Final

import msgspec

from opsdk.engine.masking import masked_text

__all__ = ["is_library", "object_state", "variables_of"]

_MAX_DEPTH: Final = 8
_MAX_VALUES: Final = 20_000
"""Values that one state may have: what lies beyond is not a part of it."""
_ASSIGNED: Final = frozenset({"uid", "resource_version", "generation", "creation_timestamp", "managed_fields"})
"""Attributes of metadata that the server assigns."""
_TIMES: Final = (float, date, time, timedelta)


def object_state(value: Any) -> object:
    """Return an object as plain values: its attributes, without functions.

    >>> class Records:
    ...     def __init__(self): self.by_name = {"a": 1}
    >>> object_state(Records())
    ('Records', [('by_name', [("'a'", 1)])])
    """
    return _Walk(None).value(value)


def variables_of(declared: Collection[Callable[..., Any]]) -> object:
    """Return what functions and everything in their packages keep between calls.

    >>> def make():
    ...     seen = set()
    ...     def reconcile(name): seen.add(name)
    ...     return reconcile
    >>> reconcile = make()
    >>> before = variables_of([reconcile])
    >>> reconcile("a")
    >>> variables_of([reconcile]) != before
    True
    """
    walk = _Walk(frozenset(map(_package_of, declared)))
    return [walk.value(function) for function in declared]


def _package_of(value: Any) -> str:
    return str(getattr(value, "__module__", None) or "").partition(".")[0]


class _Walk:
    """Walks through values, and visits each object once.

    Args:
        packages: of the operator. Installed libraries, such as clients and loggers, are not looked into, and have no
            state; None looks into all.
    """

    def __init__(self, packages: frozenset[str] | None) -> None:
        self._packages = packages
        self._visited: dict[int, object] = {}
        self._count = 0

    def value(self, value: Any, depth: int = 0) -> object:
        """Return a value without times."""
        if value is None or isinstance(value, bool | int | bytes):
            return value
        if isinstance(value, str):
            return masked_text(value)
        if isinstance(value, _TIMES):
            return "a time"
        self._count += 1
        # Each object is kept, so that its identity is not given to another one.
        if id(value) in self._visited or depth > _MAX_DEPTH or self._count > _MAX_VALUES:
            return "..."
        self._visited[id(value)] = value
        return self._container(value, depth + 1)

    def _container(self, value: Any, depth: int) -> object:
        if isinstance(value, Mapping):
            return [(repr(self.value(name, depth)), self.value(item, depth)) for name, item in value.items()]
        if isinstance(value, list | tuple | deque):
            return [self.value(item, depth) for item in value]
        if isinstance(value, set | frozenset):
            return sorted(repr(self.value(item, depth)) for item in value)
        if isinstance(value, itertools.count):
            return repr(value)
        if callable(value) and not isinstance(value, type):
            return self._callable(value, depth)
        if isinstance(value, msgspec.Struct) or self._is_own(type(value)):
            return self._object(value, depth)
        return type(value).__name__

    def _object(self, value: Any, depth: int) -> object:
        names = getattr(value, "__struct_fields__", None) or getattr(value, "__dict__", {})
        attributes = [(name, getattr(value, name)) for name in names if name not in _ASSIGNED]
        if self._packages is None:
            attributes = [(name, item) for name, item in attributes if not callable(item)]
        return type(value).__name__, [(name, self.value(item, depth)) for name, item in attributes]

    def _callable(self, value: Any, depth: int) -> object:
        if self._packages is None:
            return type(value).__name__
        if isinstance(value, functools.partial):
            return [self.value(part, depth) for part in (value.func, value.args, value.keywords)]
        if isinstance(value, types.MethodType):
            return [self.value(value.__self__, depth), self.value(value.__func__, depth)]
        if not isinstance(value, types.FunctionType):
            return self._object(value, depth) if self._is_own(type(value)) else type(value).__name__
        if not self._is_own(value):
            return value.__name__
        states = [(name, self.value(item, depth)) for name, item in _kept_by(value)]
        return value.__name__, [(name, state) for name, state in states if state != "..."]

    def _is_own(self, value: Any) -> bool:
        return self._packages is None or (package := _package_of(value)) in self._packages or not is_library(package)


@functools.lru_cache(1024)
def is_library(package: str) -> bool:
    """Whether a package is part of Python or of opsdk, or is installed."""
    if package in sys.stdlib_module_names or package in ("builtins", "opsdk", "envtest"):
        return True
    path = getattr(sys.modules.get(package), "__file__", None) or ""
    return not package or "site-packages" in path or "dist-packages" in path


def _kept_by(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function refers to: of its closure, of its module, and its defaults."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    variables = function.__globals__
    for name in _names_in(function.__code__):
        if name in variables and not isinstance(variables[name], types.ModuleType | type):
            yield name, variables[name]
    yield "defaults", function.__defaults__
    yield "keyword defaults", function.__kwdefaults__


@functools.lru_cache(1024)
def _names_in(code: types.CodeType) -> tuple[str, ...]:
    """Return the global names that a function and the functions inside it use."""
    return tuple(dict.fromkeys(_all_names(code)))


def _all_names(code: types.CodeType) -> Iterable[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_names(constant)
