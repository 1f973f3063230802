"""Modules of a project that are imported anew, as in another process."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import resolve_name
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from opsdk.verification.exploration.variables import is_library

__all__ = ["compiled_once", "imported_modules", "renew_imports"]


def imported_modules(names: Iterable[str]) -> list[str]:
    """Return modules of a project, and those of it that they import. Installed libraries are left out.

    >>> import json
    >>> imported_modules(["json"])
    []
    """
    waiting, modules = list(names), dict[str, None]()
    while waiting:
        name = waiting.pop()
        if name in modules or name not in sys.modules or is_library(name.partition(".")[0]):
            continue
        modules[name] = None
        waiting += _imports(getattr(sys.modules[name], "__file__", None) or "", sys.modules[name].__package__ or "")
    return list(modules)


@lru_cache(1024)
def _imports(file: str, package: str) -> tuple[str, ...]:
    """Return the modules that a file may import, also those that are only names of other modules."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()  # without a source, as an extension module
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            names |= dict.fromkeys([module, *(f"{module}.{alias.name}" for alias in node.names)])
    parents = (name[:end] for name in names for end in range(len(name)) if name[end] == ".")
    return tuple(names | dict.fromkeys(parents))


@contextmanager
def compiled_once() -> Iterator[None]:
    """In the block, a file of a project that is imported again is compiled only if it has changed.

    Python itself keeps bytecode on the disk, but not with ``PYTHONDONTWRITEBYTECODE``, which most images set.
    """
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds the modules of a project where Python does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if is_library(fullname.partition(".")[0]):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Loads a file, and keeps its code."""

    def get_code(self, fullname: str) -> CodeType | None:
        status = Path(self.path).stat()
        return self._code(fullname, status.st_mtime_ns, status.st_size)

    @lru_cache(1024)  # noqa: B019 - equal for equal files, and few
    def _code(self, fullname: str, _modified: int, _size: int) -> CodeType | None:
        return super().get_code(fullname)


def renew_imports(name: str) -> None:
    """Import the modules that a module uses anew, and give it what it imported from them. The module itself stays."""
    module = sys.modules[name]
    former = {each: sys.modules[each] for each in imported_modules([name]) if each != name}
    for each in former:
        del sys.modules[each]
    with compiled_once():
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
