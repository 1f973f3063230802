"""Errors of CEL expressions.

::

    CelError
    ├── CelCompileError           parse or type error, with its position
    └── CelEvaluationError        evaluation error, such as a missing key
        └── CelBudgetError            the cost limit is exceeded
"""

from __future__ import annotations

from opsdk.errors import OpsdkError

__all__ = ["CelBudgetError", "CelCompileError", "CelError", "CelEvaluationError"]


class CelError(OpsdkError):
    """A Common Expression Language expression does not compile or evaluate."""


class CelCompileError(CelError):
    """The expression does not parse or type-check. The message shows the position."""


class CelEvaluationError(CelError):
    """The expression has no value for these variables, for example because a key is missing."""


class CelBudgetError(CelEvaluationError):
    """The evaluation exceeds its cost limit."""
