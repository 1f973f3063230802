"""Reloads the modules of a folder."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

_ENVIRONMENTS = frozenset({"site-packages", ".venv", "venv", "node_modules"})


def modules_below(folder: Path) -> dict[str, ModuleType]:
    """Return the imported modules whose files are in a folder, except those of virtual environments in it."""
    below = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or name == "__main__":
            continue
        path = Path(file)
        if path.is_relative_to(folder) and not _ENVIRONMENTS.intersection(path.relative_to(folder).parts):
            below[name] = module
    return below


@contextmanager
def imported_again(folder: Path) -> Iterator[None]:
    """Drop the modules of a folder so that the block reimports them. Restores the old modules if the block fails."""
    before = modules_below(folder)
    # Bytecode files record the source's mtime in whole seconds, so an edit within the same second would be missed.
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    for name in before:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        for name in modules_below(folder):
            del sys.modules[name]
        sys.modules.update(before)
        raise
    finally:
        sys.dont_write_bytecode = writes_bytecode
