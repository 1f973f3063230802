"""What the server's own types say of their fields and the published schemas do not.

Which are pointers, and which are written even where nothing was given. The table has a line for each type: its fields,
in the order in which they are written, each with a mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

PLAIN: Final = ""
"""Left out where it is zero: a zero that was given means nothing."""
POINTER: Final = "*"
"""Left out where it was not given: a zero means something. Structs, lists and maps never have this mark."""
SHOWN: Final = "="
"""Always written, with the zero of its type where nothing was given."""
NULL: Final = "?"
"""Always written, as null where nothing was given."""


@cache
def _lines() -> Mapping[str, str]:
    text = (Path(__file__).parent / "fields.txt").read_text()
    return {name: rest for name, _, rest in (line.partition(" ") for line in text.splitlines())}


def forms(name: str) -> Mapping[str, str]:
    """The marks of a type's fields by their names, in order; empty where the type is not known.

    >>> forms("io.k8s.api.batch.v1.JobStatus")["ready"], forms("io.k8s.api.batch.v1.JobStatus")["active"]
    ('*', '')
    """
    made = {}
    for word in _lines().get(name, "").split():
        field = word.rstrip(POINTER + SHOWN + NULL)
        made[field] = word[len(field) :]
    return made


@cache
def pointers(name: str) -> frozenset[str]:
    """The fields of a type in which a zero means something."""
    return frozenset(field for field, mark in forms(name).items() if mark in (POINTER, NULL))
