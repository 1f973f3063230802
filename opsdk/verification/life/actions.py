"""What users and other programs do in the workloads of this package."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import to_dict
from opsdk.apimachinery.tree_names import key_of_tree, subject_of_tree
from opsdk.client.patch import merge_patch
from opsdk.engine.world.declaration import World
from opsdk.errors import ApiError
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.life.external import entries_of, forget_entries
from opsdk.verification.objects import USER, create_missing, reference_to

__all__ = ["CreateObjects", "DeleteObjects", "Forget", "Look", "Pass", "PatchObjects", "WaitSecond"]

_REFUSALS: Final = (400, 403, 422)
_NOT_FOUND: Final = 404
_HOUR: Final = 3700.0
_REAL_SECOND: Final = 1.01
"""Timestamps have seconds."""


class CreateObjects:
    """Creates objects, with the namespaces that do not exist.

    Attributes:
        refusals: the errors of the server by namespace and name: a rule that is not in the schema refuses the object.
    """

    def __init__(self, objects: Iterable[JsonObject], name: str = "create") -> None:
        self.__name__, self._objects = name, list(objects)
        self.refusals: dict[str, str] = {}

    async def __call__(self, world: World) -> None:
        spaces = dict.fromkeys(each["metadata"].get("namespace", "") for each in self._objects)
        for space in filter(None, spaces):
            await create_missing(world.client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        for tree in self._objects:
            try:
                await create_missing(world.client, tree)
            except ApiError as error:
                if error.code not in _REFUSALS:
                    raise
                self.refusals[key_of_tree(tree)] = str(error)


class DeleteObjects:
    """Deletes objects."""

    def __init__(self, objects: Iterable[JsonObject], name: str = "delete") -> None:
        self.__name__, self._objects = name, list(objects)

    async def __call__(self, world: World) -> None:
        for tree in self._objects:
            await world.client.delete(reference_to(tree), missing_ok=True)


class PatchObjects:
    """Changes objects by a merge patch each."""

    def __init__(self, patches: Sequence[tuple[JsonObject, JsonObject]], name: str) -> None:
        self.__name__, self._patches = name, patches

    async def __call__(self, world: World) -> None:
        for tree, patch in self._patches:
            try:
                await world.client.patch(reference_to(tree), merge_patch(patch), field_owner=USER)
            except ApiError as error:
                # The object may have been refused, and so may the change.
                if error.code not in (*_REFUSALS, _NOT_FOUND):
                    raise


class Look:
    """Reads objects, and counts the entries of the doubles, without a change.

    Attributes:
        seen: the objects by namespace and name; None for one that does not exist.
        entries: of the doubles, by container.
        systems: the doubles.
    """

    def __init__(self, objects: Iterable[JsonObject] = (), name: str = "look") -> None:
        self.__name__, self._objects = name, list(objects)
        self.seen: dict[str, JsonObject | None] = {}
        self.entries: Mapping[str, int] = {}
        self.systems: Any = None

    async def __call__(self, world: World) -> None:
        for tree in self._objects:
            kind = unstructured_kind(tree["apiVersion"], tree["kind"])
            metadata = tree["metadata"]
            obj = await world.client.get_or_none(kind, metadata["name"], namespace=metadata.get("namespace", ""))
            self.seen[subject_of_tree(tree)] = None if obj is None else to_dict(obj)
        self.systems, self.entries = world.systems, entries_of(world.systems)


class Forget:
    """Another program deletes everything in the external system."""

    __name__ = "forget"

    async def __call__(self, world: World) -> None:
        forget_entries(world.systems)


class Pass:
    """Lets an hour of virtual time pass: an operator may look at things from time to time."""

    def __init__(self, name: str = "pass") -> None:
        self.__name__ = name

    async def __call__(self, _: World) -> None:
        await asyncio.sleep(_HOUR)


class WaitSecond:
    """Waits for a second of real time: what an operator reads from the clock of the system differs afterwards."""

    __name__ = "wait"

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep

    async def __call__(self, _: World) -> None:
        self._sleep(_REAL_SECOND)
