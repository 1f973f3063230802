"""The ways in which others delete a custom resource, after each of which it must go. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from opsdk.structured_merge.value import JsonObject
from opsdk.verification.life.actions import DeleteObjects, Forget
from opsdk.verification.life.foreign_objects import Remember, RemoveForeign
from opsdk.verification.life.neighbours import NAMESPACES

__all__ = ["HELD", "Deletion", "deletions_of"]

HELD: Final = "verify.example.com/held"
"""A finalizer of another controller."""


class Deletion(msgspec.Struct, frozen=True):
    """One way in which an object is deleted.

    Attributes:
        when: in words.
        obj: the custom resource.
        actions: that delete it.
    """

    when: str
    obj: JsonObject
    actions: Sequence[Any]

    @property
    def is_held(self) -> bool:
        """Whether another controller keeps the object."""
        return HELD in self.obj["metadata"].get("finalizers", ())


def deletions_of(
    obj: JsonObject, references: Sequence[JsonObject], children: Sequence[str], *, namespaced: bool, has_systems: bool
) -> Iterator[Deletion]:
    """Yield the ways in which an object is deleted.

    Args:
        obj: the custom resource.
        references: objects that it names.
        children: storage keys of its children.
        namespaced: its kind has namespaces.
        has_systems: the operator changes external systems.
    """
    delete = DeleteObjects([obj])
    # A deletion in the foreground removes the children first, after the operator has seen that the object goes.
    held = {**obj, "metadata": {**obj["metadata"], "finalizers": [HELD]}}
    remember = Remember(children)
    yield Deletion("while another controller holds it", held, [remember, delete, RemoveForeign(remember)])
    if namespaced:
        space: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACES[2]}}
        moved = {**obj, "metadata": {**obj["metadata"], "namespace": NAMESPACES[2]}}
        yield Deletion("when its namespace is deleted", moved, [DeleteObjects([space], "delete the namespace")])
    if references:
        gone = DeleteObjects(references, "delete what it names")
        yield Deletion("when what it names was deleted before", obj, [gone, delete])
    if has_systems:
        yield Deletion("when the external system has forgotten it", obj, [Forget(), delete])
