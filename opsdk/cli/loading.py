"""Imports what a command line names: ``MODULE:NAME``, a module, or a file."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from opsdk.builder.operator import Operator
from opsdk.cli.project import find_project
from opsdk.errors import UsageError


def load(reference: str, what: str) -> Any:
    """Return the object that `reference` names. The current folder is searched first.

    Args:
        reference: ``MODULE:NAME``.
        what: what is expected, for the error: ``CLASS``.

    Raises:
        UsageError: the module does not import, or has no such name. The message has the file and line of the failure.

    >>> load("pathlib:Path", "CLASS").__name__
    'Path'
    """
    module, _, name = reference.partition(":")
    if not module or not name:
        raise UsageError(f"{reference!r} cannot be loaded, write MODULE:{what}")
    try:
        return getattr(import_module(module), name)
    except AttributeError as error:
        raise UsageError(f"{reference!r} cannot be loaded, write MODULE:{what}: {error}") from error


def import_module(name: str) -> ModuleType:
    """Import a module, or a file if the name ends in ``.py``. The current folder is searched first.

    Raises:
        UsageError: it does not import. The message has the file and line of the failure.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")
    if name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"{name} does not exist: name a file, or MODULE:NAME")
        sys.path.insert(0, str(path.parent.absolute()))
        name = path.stem
    try:
        return importlib.import_module(name)
    except SyntaxError as error:
        raise UsageError(f"{name!r} cannot be loaded: {error.filename}:{error.lineno}: {error.msg}") from error
    except (ModuleNotFoundError, ValueError) as error:
        raise UsageError(f"{name!r} cannot be loaded, write MODULE:NAME: {error}") from error
    except Exception as error:  # the module's own code may raise anything
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        place = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}: " if frame is not None else ""
        raise UsageError(f"{name!r} cannot be loaded: {place}{type(error).__name__}: {error}") from error


def load_operator(reference: str) -> Operator:
    """Return the operator that a command line names.

    Args:
        reference: ``MODULE:NAME``, where NAME is an operator or a function that returns one; a module or a file
            (``greeter.py``) with one operator; empty for that of the project around the current folder.

    Raises:
        UsageError: nothing is named and there is no project, the module does not import, or has not one operator.
    """
    if not reference:
        project = find_project(Path.cwd())
        if project is None or not project.operator:
            raise UsageError(
                'name the operator: MODULE:NAME or FILE.py, or write operator = "MODULE:NAME" under [tool.opsdk] in '
                "pyproject.toml"
            )
        reference = project.operator
    if ":" in reference:
        target = load(reference, "NAME")
    else:
        operators = {k: v for k, v in vars(import_module(reference)).items() if isinstance(v, Operator)}
        if len(set(map(id, operators.values()))) != 1:
            raise UsageError(f"{reference} has {len(operators)} operators: write {reference}:NAME")
        target = next(iter(operators.values()))
    if callable(target):
        target = target()
    if not isinstance(target, Operator):
        raise UsageError(f"{reference!r} is no operator: name an Operator, or a function that returns one")
    return target
