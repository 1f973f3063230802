"""Counts what the containers of a program hold, to see which of them grow with the names of objects."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import msgspec

_ATOMS = (str, bytes, int, float, type(None), type, ModuleType)
_NEVER = ("logging", "_pytest")
_LEFT_OUT = ("envtest", "opsdk.apiserver", "fake_server", *_NEVER)
_PACKAGES = ("opsdk",)
_SERVER_PACKAGES = ("opsdk", "envtest")
# Other libraries keep nothing by the names of objects, and reading their attributes has effects.
_WALKED = frozenset(
    {
        "opsdk",
        "envtest",
        "builtins",
        "collections",
        "functools",
        "asyncio",
        "_asyncio",
        "types",
        "heapq",
        "weakref",
    }
)
_CONTAINERS = (dict, list, set, frozenset, tuple, deque, Mapping)
_CACHED_FUNCTION = type(functools.lru_cache(len))
_FUNCTIONS = (MethodType, FunctionType, CellType, functools.partial, _CACHED_FUNCTION)


def container_sizes(*roots: object, servers: bool = False) -> Counter[str]:
    """Return the number of items in all containers that are reachable, by ``Class.attribute``.

    The walk begins at `roots` and the modules of opsdk. Log records are left out, and servers of the test unless
    `servers` is True. A container that several classes share counts for each of them, so the order of the walk makes no
    difference.
    """
    packages, left_out = (_SERVER_PACKAGES, _NEVER) if servers else (_PACKAGES, _LEFT_OUT)
    sizes: Counter[str] = Counter()
    pending: list[tuple[object, str]] = [(root, type(root).__name__) for root in roots]
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in packages and not name.startswith(("opsdk.api.", *left_out)):
            pending += [(value, f"{name}.{key}") for key, value in vars(module).items()]
    sizes["tasks"] = len(asyncio.all_tasks())
    visited: set[tuple[int, str]] = set()
    references = []  # keeps the ids unique
    while pending:
        obj, label = pending.pop()
        # What has attributes gives its parts labels of their own.
        visit = (id(obj), label if isinstance(obj, (*_CONTAINERS, *_FUNCTIONS)) else "")
        if isinstance(obj, _ATOMS) or visit in visited or type(obj).__module__.startswith(left_out):
            continue
        visited.add(visit)
        references.append(obj)
        if isinstance(obj, _CACHED_FUNCTION):
            sizes[label] += obj.cache_info().currsize
            continue
        if isinstance(obj, _CONTAINERS):
            sizes[label] += len(obj)
        pending += _parts(obj, label)
    return sizes


def _parts(obj: Any, label: str) -> Iterator[tuple[object, str]]:
    if isinstance(obj, Mapping):
        for key, value in list(obj.items()):
            yield key, label
            yield value, label
    elif isinstance(obj, _CONTAINERS):
        for item in list(obj):
            yield item, label
    elif isinstance(obj, MethodType):
        yield obj.__self__, label
        yield obj.__func__, label
    elif isinstance(obj, functools.partial):
        yield from ((part, label) for part in (obj.func, obj.args, obj.keywords))
    elif isinstance(obj, FunctionType):
        yield obj.__closure__ or (), label
    elif isinstance(obj, CellType):
        yield from [(obj.cell_contents, label)] if _is_filled(obj) else []
    elif isinstance(obj, asyncio.Handle) and obj.cancelled():
        return  # Its loop removes it later, and its context is what its task had.
    else:
        fields = [*getattr(obj, "__dict__", {})]
        for base in type(obj).__mro__:
            slots = base.__dict__.get("__slots__", ())
            fields += [slots] if isinstance(slots, str) else slots
        if isinstance(obj, msgspec.Struct):
            fields += obj.__struct_fields__
        if type(obj).__module__.split(".")[0] not in _WALKED and not _is_of_test(obj):
            return
        for field in fields:
            # The names of private slots are mangled in the class only.
            if (value := getattr(obj, field, None)) is not None:
                yield value, f"{type(obj).__name__}.{field}"


def _is_of_test(obj: object) -> bool:
    """Whether a class is defined in a test: its module is not part of an installed package."""
    file = getattr(sys.modules.get(type(obj).__module__), "__file__", None) or ""
    return "site-packages" not in file and "lib/python" not in file and bool(file)


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises for an empty cell
    except ValueError:
        return False
    return True


def growth(before: Counter[str], after: Counter[str], *, above: int) -> dict[str, int]:
    """Return the containers that have grown by more than `above` items, without newly imported modules."""
    sizes = {label: size for label, size in sorted(after.items()) if label in before or not label.startswith("opsdk.")}
    return {label: size - before[label] for label, size in sizes.items() if size - before[label] > above}
