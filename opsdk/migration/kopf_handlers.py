"""What an operator that was migrated from kopf uses: the calls of its handlers, and the functions for them.

``opsdk migrate kopf`` generates the reconcilers; see `ChangeCall` for how they call the handlers.

Upstream: kopf/_kits/hierarchies.py, _core/engines/posting.py (1.45)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from opsdk.aio.blocking import current_call
from opsdk.errors import UsageError
from opsdk.migration.kopf_calls import CURRENT_CALL, ChangeCall, HandledField, KopfKind, ObjectCall
from opsdk.migration.kopf_record import KopfNames, value_at
from opsdk.migration.kopf_stopped import BlockingStopped, Stopped
from opsdk.migration.kopf_views import Body, FilterToken, KopfPatch, Memo, Meta
from opsdk.structured_merge.value import JsonObject

__all__ = [
    "ABSENT",
    "PRESENT",
    "BlockingStopped",
    "Body",
    "ChangeCall",
    "HandledField",
    "KopfKind",
    "KopfNames",
    "KopfPatch",
    "Memo",
    "Meta",
    "ObjectCall",
    "Stopped",
    "adopt",
    "append_owner_reference",
    "label",
    "not_migrated",
    "post_event",
]

PRESENT: Final = FilterToken.PRESENT
"""A filter: the label, annotation or field exists."""
ABSENT: Final = FilterToken.ABSENT
"""A filter: the label, annotation or field does not exist."""


# ------------------------------------------------------------------ functions that handlers call
def post_event(objs: Any, *, type: str = "Normal", reason: str, message: str = "") -> None:
    """Record an Event about objects, from a handler.

    Args:
        objs: a dict, or several.
        type: ``Normal``; anything else is a ``Warning``.
        reason: one CamelCase word.
        message: a sentence; default: the reason.
    """
    call = _current()

    async def record() -> None:
        for obj in _each(objs):
            call.record_event(obj, reason, message, type)

    if _is_in_loop():
        for obj in _each(objs):
            call.record_event(obj, reason, message, type)
    else:
        current_call().wait(record())


def adopt(
    objs: Any, owner: Mapping[str, Any] | None = None, *, forced: bool = False, strict: bool = False, nested: Any = None
) -> None:
    """Give children the owner reference, name, namespace and labels of their owner, from a handler.

    Args:
        objs: a dict, an object of another client with ``metadata``, or several.
        owner: default: the handled object.
        forced: replace what the children have.
        strict: the name itself; else it is the prefix of a generated name.
        nested: paths of templates that get the labels too, such as ``spec.template``.
    """
    parent = _current().body if owner is None else owner
    metadata = parent["metadata"]
    for obj in _each(objs):
        meta = _metadata_of(obj)
        _add_owner(meta, parent)
        if forced or not (meta.get("name") or meta.get("generateName")):
            meta.set("name" if strict else "generateName", metadata["name"] if strict else f"{metadata['name']}-")
            meta.set("generateName" if strict else "name", None)
        if metadata.get("namespace") and (forced or meta.get("namespace") is None):
            meta.set("namespace", metadata["namespace"])
    label(objs, metadata.get("labels") or {}, forced=forced, nested=nested)


def append_owner_reference(objs: Any, owner: Mapping[str, Any] | None = None) -> None:
    """Add the owner reference to children, from a handler. See `adopt` for the arguments."""
    parent = _current().body if owner is None else owner
    for obj in _each(objs):
        _add_owner(_metadata_of(obj), parent)


def label(objs: Any, labels: Mapping[str, str] | None = None, *, forced: bool = False, nested: Any = None) -> None:
    """Add labels to children; default: those of the handled object. See `adopt` for the arguments."""
    added = _current().labels if labels is None else labels
    paths = [nested] if isinstance(nested, str) else list(nested or ())
    for obj in _each(objs):
        templates = [obj]
        if isinstance(obj, Mapping):
            templates += [value for path in paths if isinstance(value := value_at(obj, path), dict)]
        for template in templates if added else ():
            meta = _metadata_of(template)
            present = dict(meta.get("labels") or {})
            meta.set("labels", {**present, **added} if forced else {**added, **present})


def not_migrated(what: str) -> NoReturn:
    """Stand for something of kopf that ``opsdk migrate kopf`` did not turn.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"TODO(migrate): {what} was not migrated from kopf: the report says what to write")


def _current() -> ObjectCall:
    try:
        return CURRENT_CALL.get()
    except LookupError:
        raise UsageError("this function is called outside of a handler: pass the owner, or the labels") from None


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _each(objs: Any) -> Iterable[Any]:
    return objs if isinstance(objs, list | tuple | set) else (objs,)


class _DictMetadata:
    """The metadata of a dict."""

    def __init__(self, tree: JsonObject) -> None:
        self._tree = tree

    def get(self, name: str) -> Any:
        return self._tree.get(name)

    def set(self, name: str, value: Any) -> None:
        if value is None:
            self._tree.pop(name, None)
        else:
            self._tree[name] = value


_ATTRIBUTES: Final = {"generateName": "generate_name", "ownerReferences": "owner_references"}


class _ModelMetadata:
    """The metadata of an object of another client, with attributes in Python's case."""

    def __init__(self, metadata: Any) -> None:
        self._metadata = metadata

    def get(self, name: str) -> Any:
        return getattr(self._metadata, _ATTRIBUTES.get(name, name), None)

    def set(self, name: str, value: Any) -> None:
        setattr(self._metadata, _ATTRIBUTES.get(name, name), value)


def _metadata_of(obj: Any) -> _DictMetadata | _ModelMetadata:
    tree = getattr(obj, "obj", obj)  # pykube keeps the dict there
    if isinstance(tree, dict):
        return _DictMetadata(tree.setdefault("metadata", {}))
    if getattr(obj, "metadata", None) is None:
        raise UsageError(f"{type(obj).__name__} has no metadata: create it with a name, or pass a dict")
    return _ModelMetadata(obj.metadata)


def _add_owner(meta: _DictMetadata | _ModelMetadata, parent: Mapping[str, Any]) -> None:
    metadata = parent["metadata"]
    reference = {
        "controller": True,
        "blockOwnerDeletion": True,
        "apiVersion": parent["apiVersion"],
        "kind": parent["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    present = list(meta.get("ownerReferences") or ())
    uids = [ref.get("uid") if isinstance(ref, Mapping) else getattr(ref, "uid", None) for ref in present]
    if reference["uid"] not in uids:
        meta.set("ownerReferences", [*present, reference])
