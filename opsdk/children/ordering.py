"""`Child`: an object of `Context.apply_all` with its place in the order, and what makes it ready."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from opsdk.apimachinery.gvk import GroupKind, ObjectKey
from opsdk.apimachinery.object import PartialObjectMetadata, TypedObject, Unstructured, gvk_of, key_of
from opsdk.base.place import caller_place
from opsdk.children.graph import ChildGraph
from opsdk.children.readiness import Ready, check_ready
from opsdk.errors import UsageError

__all__ = ["Child"]

AFTER_ANNOTATION = "opsdk.dev/after"
"""The children that come before one, directly or through others; read when they are deleted in reverse order."""


class Child:
    """An object to apply, the children that come before it, and when it is ready.

    >>> from opsdk.api.core.v1 import Secret
    >>> from opsdk.apimachinery.meta import ObjectMeta
    >>> secret = Secret(metadata=ObjectMeta(name="credentials", namespace="default"))
    >>> Child(secret)
    <Child Secret default/credentials>

    Args:
        desired: only the fields that matter, as for `Context.apply`; or an external resource.
        after: the children that must be ready before this one is applied: their objects, or their `Child`.
        ready: when it is ready: True by the rules of `opsdk.recipes.summary`; a CEL expression over ``self``, the live
            object; or a function of the live object. Default: as soon as it is applied.
    """

    __slots__ = ("after", "desired", "ready")

    def __init__(self, desired: Any, *, after: Sequence[Any] = (), ready: Ready = False) -> None:
        if isinstance(desired, Child):
            raise UsageError(f"{caller_place()}: {desired!r} is a Child already: pass its object")
        identity_of_child(desired)  # raises
        self.desired = desired
        self.after = _members(after, desired)
        if not isinstance(ready, str):  # an expression is compiled when the child is applied
            check_ready(ready, str(self.identity))
        self.ready = ready

    @property
    def identity(self) -> ChildIdentity:
        """Kind and key. The namespace of a new object is known after it got that of its owner."""
        return identity_of_child(self.desired)

    @property
    def before(self) -> list[ChildIdentity]:
        """The children in `after`."""
        return [identity_of_child(other) for other in self.after]

    def __repr__(self) -> str:
        return f"<Child {self.identity}>"


def _members(after: object, desired: Any) -> tuple[Any, ...]:
    if isinstance(after, str | Child | TypedObject | Unstructured) or not isinstance(after, Iterable):
        raise UsageError(
            f"{caller_place()}: after of {identity_of_child(desired)} is {after!r}: "
            "write a list of children, after=[...]"
        )
    members = tuple(member.desired if isinstance(member, Child) else member for member in after)
    for member in members:
        identity_of_child(member)  # raises
    return members


class ChildIdentity(NamedTuple):
    """A child in any version of its kind. Prints as ``StatefulSet default/db``. An external resource has no key."""

    kind: GroupKind
    key: ObjectKey

    @property
    def reference(self) -> str:
        """The text in `AFTER_ANNOTATION`, with the group: ``StatefulSet.apps default/db``."""
        return f"{self.kind} {self.key}".strip()

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key}".strip()


def identity_of_child(obj: Any) -> ChildIdentity:
    """Return kind and key of a child. Raises `UsageError` for what is not a child."""
    identity = getattr(obj, "identity", None)
    if isinstance(identity, ChildIdentity):  # an external resource
        return identity
    if not isinstance(obj, TypedObject | Unstructured) or isinstance(obj, PartialObjectMetadata):
        raise UsageError(
            f"{caller_place()}: {obj!r} is not a child: pass an object, such as ConfigMap(metadata=...), or a Child"
        )
    return identity_of_object(obj)


def identity_of_object(obj: TypedObject | Unstructured) -> ChildIdentity:
    """Return kind and key of an object."""
    return ChildIdentity(gvk_of(obj).group_kind, key_of(obj))


def graph_of(children: Sequence[Child], applied: Iterable[ChildIdentity] = ()) -> ChildGraph[ChildIdentity]:
    """Return the order of a set.

    Args:
        children: the set.
        applied: children outside the set that were applied before it.

    Raises:
        UsageError: a child occurs twice; or see `ChildGraph`.
    """
    after: dict[ChildIdentity, list[ChildIdentity]] = {}
    for child in children:
        if child.identity in after:
            raise UsageError(f"{child.identity} is in the set twice: merge both objects into one")
        after[child.identity] = child.before
    return ChildGraph(after | {identity: [] for identity in applied if identity not in after})
