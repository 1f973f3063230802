"""A cache of functions of strings that clients choose: it is bounded in bytes, and not only in entries."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def text_cache(
    maxsize: int, *, longest: int
) -> Callable[[Callable[Concatenate[str, P], R]], Callable[Concatenate[str, P], R]]:
    """Cache the results of a function for texts of up to `longest` characters; longer ones are computed each time.

    An `lru_cache` keeps its arguments. A body has up to 3 MB, so a thousand entries may take 3 GB.

    >>> @text_cache(10, longest=3)
    ... def lower(text):
    ...     print("computed", text)
    ...     return text.lower()
    >>> lower("A"), lower("A"), lower("LONG"), lower("LONG")
    computed A
    computed LONG
    computed LONG
    ('a', 'a', 'long', 'long')
    """

    def decorate(function: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
        cached: Callable[..., R] = lru_cache(maxsize)(function)

        def call(text: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return (cached if len(text) <= longest else function)(text, *args, **kwargs)

        return wraps(function)(call)

    return decorate
