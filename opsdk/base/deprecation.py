"""Warnings about public names that a later version removes."""

from __future__ import annotations

import warnings


def warn_deprecated(name: str, *, removed_in: str, instead: str, callers: int = 1) -> None:
    """Warn the caller of a deprecated function, keyword or attribute.

    Python's default filter shows the warning once for each calling line. A test of opsdk fails when the version
    `removed_in` is reached and the call of this function is still there.

    >>> import warnings
    >>> def old() -> None:
    ...     warn_deprecated("opsdk.old", removed_in="0.3.0", instead="use opsdk.new")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     old()
    >>> str(caught[0].message)
    'opsdk.old is deprecated, and 0.3.0 removes it: use opsdk.new'

    Args:
        name: the public name, or the name and its keyword.
        removed_in: the version without the name, a string literal; at least one minor version with the warning is
            before it.
        instead: what to do, as an imperative.
        callers: how many calls lie between this function and the line that the warning names, which uses the old name.
    """
    text = f"{name} is deprecated, and {removed_in} removes it: {instead}"
    # 1 is this function, 2 the deprecated one, 3 its caller.
    warnings.warn(text, DeprecationWarning, stacklevel=2 + callers)
