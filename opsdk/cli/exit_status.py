"""The exit statuses of the ``opsdk`` command: one meaning each, for scripts and CI."""

from __future__ import annotations

from enum import IntEnum

from opsdk.base.command_line import USAGE_STATUS


class ExitStatus(IntEnum):
    """What the end of a command says."""

    SUCCESS = 0
    """What was asked for is done, or there is nothing to report."""
    ERROR = 1
    """The command failed, a check found an error, or what it must see was not visible."""
    FOUND = 2
    """``plan``: something changes; with ``--shadow``, the versions disagree. ``verify``: the operator has a bug."""
    DANGER = 3
    """``plan``: a consequence is dangerous. ``replay``: a request differs from the recording."""
    UNFINISHED = 4
    """``verify``: no bug so far, but the time ended before all disturbances of the budget."""
    USAGE = USAGE_STATUS
    """The command line is wrong: nothing was done (EX_USAGE of sysexits.h)."""
