"""The place in the program that calls opsdk, for errors of declarations."""

from __future__ import annotations

import sys


def caller_place() -> str:
    """Return ``FILE:LINE`` of the closest caller outside opsdk."""
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__", "")).partition(".")[0] == "opsdk" and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
