"""Imports objects that a command line names: ``MODULE:NAME``, a module, or a file."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Annotated, Any

import typer

from opsdk.builder.operator import Operator
from opsdk.cli.project import find_project
from opsdk.errors import OpsdkError, UsageError

OperatorArgument = Annotated[
    str, typer.Argument(metavar="[MODULE:OPERATOR|FILE]", help="default: the operator in pyproject.toml")
]
"""The operator of a command, for `load_operator`."""
_PACKAGE = str(Path(__file__).parents[1]) + os.sep


def load(reference: str, what: str) -> Any:
    """Return the object that `reference` names. The current folder is searched first.

    Args:
        reference: ``MODULE:NAME``.
        what: the expected object, for the error: ``CLASS``.

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
        folder = str(path.parent.absolute())
        # A verification loads its operator for each start: the path must not grow.
        sys.path[:] = [folder, *(each for each in sys.path if each != folder)]
        name = path.stem
    try:
        return importlib.import_module(name)  # noqa: TID251 - the user's module
    except SyntaxError as error:
        raise UsageError(f"{name!r} cannot be loaded: {error.filename}:{error.lineno}: {error.msg}") from error
    except Exception as error:  # the module's own code may raise anything
        place = place_of(error.__traceback__)
        if not place:
            raise UsageError(f"{name!r} cannot be loaded, write MODULE:NAME: {error}") from error
        message = str(error).removeprefix(place)
        raise UsageError(f"{name!r} cannot be loaded: {place}{type(error).__name__}: {message}") from error


def place_of(traceback: TracebackType | None) -> str:
    """Return ``FILE:LINE: `` of the innermost frame outside of importlib and of opsdk; empty without one.

    An error in a declaration is raised inside opsdk, but the author needs the line of the declaration. Without a frame
    outside, the innermost one inside opsdk counts.

    >>> place_of(None)
    ''
    """
    inner = outer = ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if file not in (__file__, importlib.__file__) and not file.startswith("<frozen importlib"):
            inner = f"{file}:{traceback.tb_lineno}: "
            outer = outer if file.startswith(_PACKAGE) else inner
        traceback = traceback.tb_next
    return outer or inner


def named_operator(reference: str) -> str:
    """Return the reference, or that of the project around the current folder; empty if neither names an operator."""
    if reference:
        return reference
    project = find_project(Path.cwd())
    return project.operator if project is not None else ""


def operator_reference(reference: str) -> str:
    """Return what `named_operator` returns. Raises `UsageError` if that is empty."""
    if name := named_operator(reference):
        return name
    raise UsageError(
        'name the operator: MODULE:NAME or FILE.py, or write operator = "MODULE:NAME" under [tool.opsdk] in '
        "pyproject.toml"
    )


def load_operator(reference: str) -> Operator:
    """Return the operator that a command line names.

    Args:
        reference: ``MODULE:NAME``, where NAME is an operator or a function that returns one; a module or a file
            (``greeter.py``) with one operator; empty for that of the project around the current folder.

    Raises:
        UsageError: nothing is named and there is no project, the module does not import, or has not one operator.
    """
    reference = operator_reference(reference)
    if ":" in reference:
        target = load(reference, "NAME")
    else:
        operators = {k: v for k, v in vars(import_module(reference)).items() if isinstance(v, Operator)}
        if len(set(map(id, operators.values()))) != 1:
            raise UsageError(f"{reference} has {len(operators)} operators: write {reference}:NAME")
        target = next(iter(operators.values()))
    if callable(target) and not isinstance(target, type):
        try:
            target = target()
        except OpsdkError:
            raise
        except Exception as error:  # the user's own code may raise anything
            place = place_of(error.__traceback__)
            message = str(error).removeprefix(place)
            raise UsageError(f"{reference!r} fails: {place}{type(error).__name__}: {message}") from error
    if not isinstance(target, Operator):
        raise UsageError(f"{reference!r} is not an operator: name an Operator, or a function that returns one")
    target.reference = reference
    return target
