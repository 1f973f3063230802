"""Imports what a command line names as ``MODULE:NAME``."""

from __future__ import annotations

import importlib
import sys
from typing import Any

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
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), name)
    except SyntaxError as error:
        raise UsageError(f"{reference!r} cannot be loaded: {error.filename}:{error.lineno}: {error.msg}") from error
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"{reference!r} cannot be loaded, write MODULE:{what}: {error}") from error
    except Exception as error:  # the module's own code may raise anything
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        place = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}: " if frame is not None else ""
        raise UsageError(f"{reference!r} cannot be loaded: {place}{type(error).__name__}: {error}") from error
