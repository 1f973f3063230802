"""The entries of a double: what an operator leaves in an external system. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, MutableSet, Sequence
from typing import Any, Final

import msgspec

from opsdk.verification.oracles import StateDifference

__all__ = ["entries_left", "entries_of", "forget_entries", "records_of", "shared_entries"]

_MAX_DEPTH: Final = 4


def _containers(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the containers of a double, with their paths: its attributes, and those of the objects in them."""
    if isinstance(value, Mapping | list | set | MutableSet):
        yield path or "the double", value
        return
    names = getattr(value, "__struct_fields__", None) or getattr(value, "__dict__", {})
    if depth < _MAX_DEPTH and (isinstance(value, msgspec.Struct) or not callable(value)):
        for name in names:
            yield from _containers(getattr(value, name), f"{path}.{name}".lstrip("."), depth + 1)


def entries_of(systems: Any) -> dict[str, int]:
    """Return the number of entries of each container of a double.

    >>> class Dns:
    ...     def __init__(self): self.records = {"a": 1}
    >>> entries_of(Dns())
    {'records': 1}
    """
    return {path: len(container) for path, container in _containers(systems)}


def records_of(systems: Any) -> dict[str, int]:
    """Return the number of entries of each mapping and set of a double: a list may be a log of calls."""
    return {path: len(container) for path, container in _containers(systems) if not isinstance(container, list)}


def forget_entries(systems: Any) -> None:
    """Remove the entries of all mappings and sets: another program deleted them."""
    for _, container in list(_containers(systems)):
        if isinstance(container, MutableMapping | MutableSet):
            container.clear()


def entries_left(
    systems: Any, before: Mapping[str, int], among: Mapping[str, int], after: Mapping[str, int]
) -> list[StateDifference]:
    """Return the containers with more entries after the last object is gone than before the first one.

    A list that only grows is a log of calls.

    Args:
        systems: the double.
        before: entries before the first object.
        among: entries while objects were there.
        after: entries after the last object.
    """
    logs = {path for path, container in _containers(systems) if isinstance(container, list)}
    return [
        StateDifference(
            f"{path} left over", f"{path} of the external system has {count - usual} entries too many at the end"
        )
        for path, count in sorted(after.items())
        if count > (usual := before.get(path, 0)) and (path not in logs or count < among.get(path, 0))
    ]


def shared_entries(
    before: Mapping[str, int], alone: Sequence[Mapping[str, int]], together: Mapping[str, int], *, namespaces: int
) -> list[StateDifference]:
    """Return the containers in which some objects share an entry that each has alone.

    An entry may be that of all objects, or one for each namespace. What remains is one for each object.

    Args:
        before: entries without an object.
        alone: entries beside each object that is alone.
        together: entries beside all of them.
        namespaces: of the objects.

    >>> shared_entries({}, [{"records": 1}] * 5, {"records": 4}, namespaces=2)[0].text
    'records of the external system has 4 entries for 5 objects, alone they have 5: some objects share one'
    >>> [shared_entries({}, [{"zones": 1}] * 5, {"zones": count}, namespaces=2) for count in (1, 2, 5)]
    [[], [], []]
    """
    problems = []
    for path, count in sorted(together.items()):
        usual = before.get(path, 0)
        each = [entries.get(path, 0) - usual for entries in alone]
        if not each or min(each) < 1:
            continue
        missing, own = sum(each) - (count - usual), min(each)
        explained = (
            missing == of_all * (len(each) - 1) + of_namespaces * (len(each) - namespaces)
            for of_all in range(own + 1)
            for of_namespaces in range(own + 1 - of_all)
        )
        if missing > 0 and not any(explained):
            text = (
                f"{path} of the external system has {count - usual} entries for {len(each)} objects, "
                f"alone they have {sum(each)}: some objects share one"
            )
            problems.append(StateDifference(f"{path} shared", text))
    return problems
