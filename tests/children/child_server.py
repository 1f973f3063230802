"""A server with one owner, a Site, and its child, a ConfigMap, with the real field manager."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from client_fakes import Site, SiteSpec

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import to_dict
from opsdk.apiserver.fieldmanager.field_manager import FieldManager
from opsdk.children.field_types import built_in_type
from opsdk.client.operations import Apply, Delete, Get
from opsdk.errors import ConflictError, InvalidError, NotFoundError
from opsdk.structured_merge.value import JsonObject

KEY = ObjectKey("ns", "a")
NONE = "none"
"""The color of an owner that wants no child."""
FIRST = 900_000
"""The first uid and resource version: no other number has six digits."""
STRANGER = str(FIRST)
_FIELDS = built_in_type(ConfigMap.gvk)
assert _FIELDS is not None
_MANAGER = FieldManager(shape=_FIELDS.schema, api_version="v1")


class Owner(NamedTuple):
    """The owner on the server or in the cache."""

    uid: int
    color: str

    @property
    def data(self) -> bytes:
        """The owner as JSON."""
        metadata = ObjectMeta(name=KEY.name, namespace=KEY.namespace, uid=str(self.uid))
        return msgspec.json.encode(Site(metadata=metadata, spec=SiteSpec(image=self.color)))


class ChildServer:
    """An owner and a child. Both are values, so a copy of the server is cheap.

    Attributes:
        owner: None if it does not exist.
        child: as JSON; None if it does not exist.
        removed: a child was deleted, and the cache has not shown it.
        pass_owner: the uid of the owner that the operator works for.
        writes: the requests that write.
    """

    def __init__(self) -> None:
        self.last_number = FIRST
        self.owner: Owner | None = None
        self.child: bytes | None = None
        self.removed = False
        self.pass_owner = 0
        self.writes = 0

    # -------------------------------------------------------------- users and the garbage collector
    def number(self) -> int:
        """Return a new uid or resource version."""
        self.last_number += 1
        return self.last_number

    def set_owner(self, color: str, *, new: bool = False) -> None:
        """The owner is created, or wants something else."""
        uid = self.number() if new or self.owner is None else self.owner.uid
        self.owner = Owner(uid, color)

    def delete_owner(self) -> None:
        """A user deletes the owner."""
        self.owner = None

    def create_strange(self) -> None:
        """Another controller creates an object with the child's name."""
        self.child = self._stored(None, applied(None, strange_child(), "stranger"))

    def edit(self) -> None:
        """A user changes the child's color."""
        self.child = self._stored(self.child, edited(bare(self.child)))

    def delete_child(self) -> None:
        """A user deletes the child."""
        self._remove_child()

    def is_garbage(self) -> bool:
        """Whether no owner of the child exists."""
        if self.child is None:
            return False
        living = {STRANGER, str(self.owner.uid if self.owner is not None else 0)}
        return not any(owner["uid"] in living for owner in owners_of(msgspec.json.decode(self.child)))

    def collect(self) -> None:
        """The garbage collector deletes the child."""
        self._remove_child()

    def _remove_child(self) -> None:
        self.child, self.removed = None, True

    # -------------------------------------------------------------- requests
    def handle(self, operation: Any) -> Any:
        """Handle a request. Raises the server's error."""
        if isinstance(operation, Get):
            if operation.kind.gvk.kind == "Site":
                return self.owner.data if self.owner is not None else None
            return self.child
        self.writes += 1
        return self._delete(operation) if isinstance(operation, Delete) else self._apply(operation)

    def _delete(self, operation: Delete) -> None:
        if self.child is None:
            raise NotFoundError("not found")
        metadata = msgspec.json.decode(self.child)["metadata"]
        options = operation.options
        if (options.uid, options.resource_version) != (metadata["uid"], metadata["resourceVersion"]):
            raise ConflictError("the object has changed")
        controller = owners_of({"metadata": metadata})[0]["uid"]
        assert controller == str(self.pass_owner), f"the child of {controller} is deleted for {self.pass_owner}"
        self._remove_child()

    def _apply(self, operation: Apply) -> bytes:
        tree = applied(bare(self.child), msgspec.json.encode(tree_of(operation.obj)), operation.options.field_owner)
        before = [] if self.child is None else [owner["uid"] for owner in owners_of(msgspec.json.decode(self.child))]
        after = [owner["uid"] for owner in owners_of(tree)]
        if len(after) > 1:
            raise InvalidError("only one controller")
        if before and self.owner is not None and before[0] == str(self.owner.uid):
            assert after == before, f"the child of {before[0]} is taken for {after[0]}"
        self.child = self._stored(self.child, tree)
        return self.child

    def _stored(self, live: bytes | None, tree: JsonObject) -> bytes:
        """Return the child with uid and resource version, which stays if nothing has changed."""
        if live is not None and msgspec.json.encode(tree) == bare(live):
            return live
        uid = str(self.number()) if live is None else uid_of(live)
        metadata = {**tree["metadata"], "uid": uid, "resourceVersion": str(self.number())}
        return msgspec.json.encode({**tree, "metadata": metadata})


# ------------------------------------------------------------------ trees
def tree_of(obj: Any) -> JsonObject:
    """Return the tree of an object that is applied."""
    tree: JsonObject = msgspec.json.decode(msgspec.json.encode(to_dict(obj)))
    return tree


def owners_of(tree: JsonObject) -> list[JsonObject]:
    """Return the owner references."""
    references: list[JsonObject] = tree.get("metadata", {}).get("ownerReferences", [])
    return references


def uid_of(data: bytes) -> str:
    """Return the uid of an object."""
    uid: str = msgspec.json.decode(data)["metadata"]["uid"]
    return uid


@lru_cache(maxsize=4096)
def bare(data: bytes | None) -> bytes | None:
    """Return the child without uid and resource version."""
    if data is None:
        return None
    tree = msgspec.json.decode(data)
    metadata = {name: value for name, value in tree["metadata"].items() if name not in ("uid", "resourceVersion")}
    return msgspec.json.encode({**tree, "metadata": metadata})


@lru_cache(maxsize=4096)
def applied(live: bytes | None, config: bytes, manager: str) -> JsonObject:
    """Return the child after an apply."""
    tree = None if live is None else msgspec.json.decode(live)
    return _MANAGER.apply(tree, msgspec.json.decode(config), manager=manager, force=True, now="")


@lru_cache(maxsize=4096)
def edited(live: bytes) -> JsonObject:
    """Return the child after a user has changed its color."""
    tree = msgspec.json.decode(live)
    return _MANAGER.update(tree, {**tree, "data": {"color": "green"}}, manager="kubectl", now="")


def strange_child() -> bytes:
    """Return an object that another controller applies."""
    owner = {"apiVersion": "v1", "kind": "Other", "name": "a", "uid": STRANGER, "controller": True}
    metadata = {"name": KEY.name, "namespace": KEY.namespace, "ownerReferences": [owner]}
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"color": "strange"}}
    )
