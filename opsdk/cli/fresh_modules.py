"""Modules of a project that are imported anew, as in another process."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from opsdk.verification.exploration.variables import is_library

__all__ = ["imported_modules", "renew_imports"]


def imported_modules(names: Iterable[str]) -> list[str]:
    """Return modules of a project, and those of it that they import. Installed libraries are left out.

    >>> import json
    >>> imported_modules(["json"])
    []
    """
    waiting, found = list(names), dict[str, None]()
    while waiting:
        name = waiting.pop()
        if name in found or name not in sys.modules or is_library(name.partition(".")[0]):
            continue
        found[name] = None
        waiting += [_module_of(value) for value in list(vars(sys.modules[name]).values())]
    return list(found)


def renew_imports(name: str) -> None:
    """Import the modules that a module uses anew, and give it what it imported from them. The module itself stays."""
    module = sys.modules[name]
    former = {each: sys.modules[each] for each in imported_modules([name]) if each != name}
    for each in former:
        del sys.modules[each]
    for variable, value in list(vars(module).items()):
        if (source := _module_of(value)) in former:
            renewed = importlib.import_module(source)  # noqa: TID251 - the user's module
            is_module = isinstance(value, ModuleType)
            setattr(module, variable, renewed if is_module else getattr(renewed, value.__name__, value))


def _module_of(value: Any) -> str:
    """Return the module that a value of a module is, or that defines it: a function or a class."""
    if isinstance(value, ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", "")) if hasattr(value, "__name__") else ""
