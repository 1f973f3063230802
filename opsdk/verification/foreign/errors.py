"""The errors of a verification of another process."""

from __future__ import annotations

from opsdk.errors import OpsdkError

__all__ = ["ForeignOperatorError", "WorkloadError"]


class ForeignOperatorError(OpsdkError):
    """The command cannot be verified. The message says why, and what to do; the last lines of its log follow."""


class WorkloadError(OpsdkError):
    """A workload cannot be read, or the API server refuses one of its steps. The message has the step."""
