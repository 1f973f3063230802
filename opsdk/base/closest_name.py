"""The name that a user probably meant, for messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def closest_name(name: str, names: Iterable[str]) -> str:
    """Return the most similar one of some names; empty if none is similar.

    >>> closest_name("replica", ["image", "replicas"])
    'replicas'
    """
    from difflib import get_close_matches  # noqa: PLC0415 - start-up time: only messages of wrong declarations need it

    return next(iter(get_close_matches(name, list(names), n=1)), "")
