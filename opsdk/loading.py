"""Imports on first use.

An operator without webhooks, metrics or leader election should not pay for their modules at its start. A module that
only some operators use is imported inside ``with on_first_use:``; its code runs when its first attribute is read::

    with on_first_use:
        from opsdk.webhook import server as webhook_server

Import modules there, never names: ``from module import name`` reads an attribute. Type checkers and import-linter see
an ordinary import. Use it where a measurement shows that the module costs time, and keep other imports plain.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from threading import RLock, local
from types import ModuleType
from typing import Any

# The import sets these before the code runs. Import statements read the first, and `inspect` the others of all modules.
_SET_BY_IMPORT = frozenset(["__spec__", "__file__", "__name__"])


class _LazyModule(ModuleType):
    """A module whose code has not run. Then its class becomes `ModuleType`, so ``super()`` does not work here."""

    def __getattribute__(self, name: str) -> object:
        if name not in _SET_BY_IMPORT:
            _load(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        _load(self)
        ModuleType.__setattr__(self, name, value)


class _Loader(LazyLoader):
    """Runs the code of a module on first use. The class of the standard library is not safe for threads before 3.12."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty until it is used."""
        self.lock = RLock()
        self.loading = False
        module.__class__ = _LazyModule


class _OnFirstUse(local):
    """Finds the modules of import statements inside ``with on_first_use:``, not of those in the modules themselves.

    Packages are imported at once.

    Attributes:
        active: whether this thread runs such statements.
    """

    active = False

    def __enter__(self) -> None:
        self.active = True
        sys.meta_path.insert(0, self)

    def __exit__(self, *exception: object) -> None:
        self.active = False
        sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if not self.active:
            return None
        spec = PathFinder.find_spec(name, path, target)
        # A package is imported at once. If it were empty, an import of a submodule would run the package first, and
        # then the submodule a second time, although the package has imported it.
        if spec is not None and spec.loader is not None and spec.submodule_search_locations is None:
            spec.loader_state = spec.loader
            spec.loader = _Loader(spec.loader)
        return spec


on_first_use = _OnFirstUse()
"""Import statements in a ``with`` block of it import modules on first use."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Run a block without the garbage collector, such as imports.

    Modules make many containers and next to no garbage: the collector takes a tenth of the time of an import.

    >>> with collector_paused():
    ...     gc.isenabled()
    False
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def names_on_first_use(package: dict[str, Any], homes: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package whose public names are imported when they are first used.

    Args:
        package: the package's ``globals()``.
        homes: names by the module of the package that defines them.

    ::

        __getattr__ = names_on_first_use(globals(), {"names": ("guess_plural", "safe_concat_name")})
    """
    prefix = package["__name__"]
    home_of = {name: f"{prefix}.{module}" for module, names in homes.items() for name in names}

    def attribute(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {prefix!r} has no attribute {name!r}")
        with collector_paused():
            value = package[name] = getattr(import_module(home_of[name]), name)
        return value

    return attribute


def _load(module: ModuleType) -> None:
    """Run the code of a module, once. A second thread waits; if the code raises, the next use runs it again."""
    spec = ModuleType.__getattribute__(module, "__spec__")
    loader = spec.loader
    if not isinstance(loader, _Loader):
        return
    with loader.lock:
        if loader.loading or spec.loader is not loader:
            return  # the code of the module itself uses it, or another thread was faster
        loader.loading = True
        active, on_first_use.active = on_first_use.active, False
        try:
            spec.loader_state.exec_module(module)
        finally:
            on_first_use.active = active
            loader.loading = False
        spec.loader = spec.loader_state
        module.__class__ = ModuleType
