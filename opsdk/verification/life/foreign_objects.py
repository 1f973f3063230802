"""Objects of another controller that have the names of the operator's children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.client.patch import merge_patch
from opsdk.engine.world.declaration import World
from opsdk.engine.world.rest_state import subject_of
from opsdk.errors import ApiError
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.oracles import StateDifference

__all__ = ["Annotate", "Occupy", "Remember", "RemoveForeign", "lost_annotations", "taken_over"]

_MARK: Final = "verify.example.com/foreign"
_IDENTITY: Final = ("name", "namespace", "labels")
_ASSIGNED: Final = ("clusterIP", "clusterIPs", "volumeName", "nodeName")
_OWNER: Final = "verify-owner"


class Remember:
    """Reads the children of the operator.

    Attributes:
        objects: by storage key.
    """

    __name__ = "remember"

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self.objects: dict[str, JsonObject] = {}

    async def __call__(self, world: World) -> None:
        for key in self._keys:
            if (tree := await _read(world, key)) is not None:
                self.objects[key] = tree


class RemoveForeign:
    """Deletes the children, as the garbage collector does."""

    __name__ = "remove"

    def __init__(self, children: Remember) -> None:
        self._children = children

    async def __call__(self, world: World) -> None:
        for child in self._children.objects.values():
            await world.client.delete(Unstructured.from_tree(child), missing_ok=True)


class Annotate:
    """Adds an annotation to children, as other controllers and users do.

    Attributes:
        seen: the children with it, by storage key.
    """

    __name__ = "annotate"

    def __init__(self, children: Remember) -> None:
        self._children = children
        self.seen: dict[str, JsonObject] = {}

    async def __call__(self, world: World) -> None:
        patch = merge_patch({"metadata": {"annotations": {_MARK: "true"}}})
        for key, child in self._children.objects.items():
            stored = await world.client.patch(Unstructured.from_tree(child), patch, field_owner="foreign")
            self.seen[key] = to_dict(stored)


class Occupy:
    """Creates objects of another controller with the names of children, or looks at them.

    Attributes:
        seen: the objects by storage key, as they were when it was called.
    """

    def __init__(self, children: Remember, name: str = "occupy", *, only_look: bool = False) -> None:
        self.__name__, self._children, self._only_look = name, children, only_look
        self.seen: dict[str, JsonObject | None] = {}

    async def __call__(self, world: World) -> None:
        for key, child in self._children.objects.items():
            if not self._only_look:
                await _occupy(world, child)
            self.seen[key] = await _read(world, key)


async def _read(world: World, key: str) -> JsonObject | None:
    group, resource, *names = key.split("/")
    gvk = (await world.client.mapper.kind_for(f"{resource}.{group}" if group not in ("", "core") else resource)).gvk
    kind = unstructured_kind(gvk.api_version, gvk.kind)
    obj = await world.client.get_or_none(kind, names[-1], namespace=names[0] if len(names) > 1 else "")
    return None if obj is None else to_dict(obj)


async def _occupy(world: World, child: JsonObject) -> None:
    """Create an object like a child that another object controls; none where the server refuses it."""
    metadata = {name: child["metadata"][name] for name in _IDENTITY if name in child["metadata"]}
    if "namespace" not in metadata:
        return
    meta: JsonObject = {"name": _OWNER, "namespace": metadata["namespace"]}
    owner = Unstructured.from_tree({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    existing = await world.client.get_or_none(unstructured_kind("v1", "ConfigMap"), _OWNER, namespace=meta["namespace"])
    stored = existing if existing is not None else await world.client.create(owner, field_owner="foreign")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": _OWNER,
        "uid": stored.metadata.uid,
        "controller": True,
    }
    tree: JsonObject = {name: value for name, value in child.items() if name not in ("metadata", "status")}
    tree["metadata"] = {**metadata, "annotations": {_MARK: "true"}, "ownerReferences": [reference]}
    if isinstance(tree.get("spec"), dict):
        tree["spec"] = {name: value for name, value in tree["spec"].items() if name not in _ASSIGNED}
    if tree["kind"] == "ConfigMap":
        tree["data"] = {"foreign": "true"}
    if tree["kind"] == "Secret":
        tree["data"] = {"foreign": "dHJ1ZQ=="}
    try:
        await world.client.create(Unstructured.from_tree(tree), field_owner="foreign")
    except ApiError as error:
        if error.code not in (400, 403, 409, 422):
            raise


def taken_over(
    before: Mapping[str, JsonObject | None], after: Mapping[str, JsonObject | None]
) -> list[StateDifference]:
    """Return the foreign objects that are not what they were."""
    problems = []
    for key, tree in before.items():
        if tree is None or _MARK not in tree["metadata"].get("annotations", {}) or key not in after:
            continue
        now = after[key]
        what = ""
        if now is None or now["metadata"]["uid"] != tree["metadata"]["uid"]:
            what = "was deleted"
        elif now["metadata"].get("ownerReferences") != tree["metadata"].get("ownerReferences"):
            what = "has another owner now"
        elif any(now.get(name) != tree.get(name) for name in ("data", "spec")):
            what = "has another content now"
        if what:
            text = f"{subject_of(key)}, which another controller owns, {what}: compare the owner before a write"
            problems.append(StateDifference(f"{key} taken over", text))
    return problems


def lost_annotations(before: Mapping[str, JsonObject], after: Mapping[str, JsonObject | None]) -> list[StateDifference]:
    """Return the objects that lost the annotation of another client. One that was created anew never had it."""
    return [
        StateDifference(
            f"{key} annotation", f"{subject_of(key)} lost the annotation of another client: write only your own keys"
        )
        for key, tree in before.items()
        if (now := after.get(key)) is not None
        and now["metadata"]["uid"] == tree["metadata"]["uid"]
        and _MARK not in now["metadata"].get("annotations", {})
    ]
