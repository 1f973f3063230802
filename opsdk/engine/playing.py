"""Makes the changes of a history in a run, each at its time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from opsdk.aio.clock import monotonic
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.apimachinery.patch.merge_patch import create_merge_patch
from opsdk.apimachinery.tree_names import subject_of_tree
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.engine.foreign_changes import ForeignAction, ForeignChange, PlayedChange
from opsdk.engine.net_changes import is_ignored
from opsdk.engine.recording import FailureJournal, failing_subject
from opsdk.engine.tree_changes import TreeChange, merged
from opsdk.engine.writes import Entry
from opsdk.errors import AlreadyExistsError, ApiError, ConflictError, InternalServerError, NoMatchError, OpsdkError
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["PLAYER", "HistoryPlayer"]

PLAYER: Final = "opsdk-replay"
"""The user who makes the changes of a history."""
_PATIENCE: Final = 60.0
"""Seconds that a change waits for its object: the operator may create it later than it did in the recording."""
_STEP: Final = 1.0
_ATTEMPTS: Final = 5
"""Of an update that meets other writers."""
_MAX_WRITES: Final = 20
"""Writes of the operator that are named beside each change."""
_ABSENT: Final = "it is not there: this version has deleted it, or never created it"
_NO_SUBRESOURCE: Final = (404, 405)


class _MissingError(OpsdkError):
    """The object of a change, or its owner, is not there."""


class HistoryPlayer:
    """Makes the changes of a history, those of one object one after the other.

    Args:
        history: in the order of time.
        kinds: ``apiVersion`` and ``kind`` of the objects that the run has: an owner of another kind was not recorded.
        journal: of the operator.
    """

    def __init__(
        self, history: Sequence[ForeignChange], kinds: Collection[tuple[str, str]], journal: FailureJournal
    ) -> None:
        self._history, self._journal = history, journal
        self._kinds = {*kinds, *((change.api_version, change.kind) for change in history)}
        self._played: dict[int, PlayedChange] = {}
        self._writes: list[str] = []
        self._more = 0

    @property
    def played(self) -> Sequence[PlayedChange]:
        """The changes in their order, with what became of them."""
        return [
            self._played.get(index) or PlayedChange(change=change, skipped="the run ended before")
            for index, change in enumerate(self._history)
        ]

    def note_write(self, entry: Entry) -> None:
        """Take a write of the operator."""
        if is_ignored(entry):
            return
        if len(self._writes) < _MAX_WRITES:
            self._writes.append(f"{entry.verb} {subject_of_tree(entry.after or entry.before or {})}")
        else:
            self._more += 1

    async def play(self, client: Client) -> None:
        """Make all changes. Their times count from now.

        Args:
            client: may do everything.
        """
        start = monotonic()
        queues: dict[tuple[str, ...], list[int]] = {}
        for index, change in enumerate(self._history):
            key = (change.api_version, change.kind, change.namespace, change.name)
            queues.setdefault(key, []).append(index)
        async with asyncio.TaskGroup() as group:
            for indices in queues.values():
                group.create_task(self._play_object(client, indices, start))

    async def _play_object(self, client: Client, indices: Sequence[int], start: float) -> None:
        for index in indices:
            change = self._history[index]
            await asyncio.sleep(start + change.seconds - monotonic())
            failing = [f"{failing_subject(record)}: {record.detail}" for record in self._journal.failing]
            writes = self._take_writes()
            skipped = await self._patiently(client, change, start + change.seconds + _PATIENCE)
            self._played[index] = PlayedChange(change=change, writes=writes, failing=failing, skipped=skipped)

    def _take_writes(self) -> Sequence[str]:
        counts: dict[str, int] = {}
        for write in self._writes:
            counts[write] = counts.get(write, 0) + 1
        texts = [f"{write} ({count} times)" if count > 1 else write for write, count in counts.items()]
        texts += [f"{self._more} more"] if self._more else []
        self._writes, self._more = [], 0
        return texts

    async def _patiently(self, client: Client, change: ForeignChange, deadline: float) -> str:
        """Make a change when its object is there. Returns why it was not made."""
        while True:
            try:
                await self._make(client, change)
            except OpsdkError as error:
                if monotonic() >= deadline or not _may_pass(error):
                    return _reason(error)
                await asyncio.sleep(_STEP)
            else:
                return ""

    async def _make(self, client: Client, change: ForeignChange) -> None:
        """Make a change. Raises `_MissingError`."""
        if change.action is ForeignAction.DELETE:
            await _delete(client, change)
            return
        fields = TreeChange(
            await self._with_own_uids(client, change, change.before),
            await self._with_own_uids(client, change, change.after),
        )
        if change.action is ForeignAction.CREATE:
            await _create(client, change, fields.after)
        else:
            await _update(client, change, fields)

    async def _with_own_uids(self, client: Client, change: ForeignChange, tree: JsonObject) -> JsonObject:
        """Return fields whose owner references have the uids of this run, without owners that were not recorded.

        Raises:
            _MissingError: an owner is not there.
        """
        metadata = tree.get("metadata") or {}
        if not metadata.get("ownerReferences"):
            return tree
        owners = []
        for owner in metadata["ownerReferences"]:
            key = (str(owner.get("apiVersion")), str(owner.get("kind")))
            if key not in self._kinds:
                continue
            obj = await _get(client, *key, name=str(owner.get("name")), namespace=change.namespace)
            if obj is None:
                raise _MissingError(f"its owner {key[1]} {owner.get('name')} is not there")
            owners.append({**owner, "uid": obj.metadata.uid})
        return {**tree, "metadata": {**metadata, "ownerReferences": owners}}


def _may_pass(error: OpsdkError) -> bool:
    """Whether a change may be possible later: its object is not there yet, or the operator does not serve a webhook."""
    is_webhook = isinstance(error, InternalServerError) and "failed calling webhook" in str(error)
    return is_webhook or isinstance(error, _MissingError)


def _reason(error: OpsdkError) -> str:
    match error:
        case _MissingError():
            return str(error)
        case NoMatchError():
            return "the cluster of the plan does not have its kind"
        case AlreadyExistsError():
            return "this version has created it before"
    first_line, _, _ = str(error).partition("\n")
    return f"it cannot be made: {first_line}"


async def _create(client: Client, change: ForeignChange, tree: JsonObject) -> None:
    owner = change.manager or PLAYER
    if change.namespace and await _get(client, "v1", "Namespace", name=change.namespace) is None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": change.namespace}}
        await client.create(Unstructured.from_tree(namespace), field_owner=PLAYER)
    try:
        obj = await client.create(Unstructured.from_tree(tree), field_owner=owner)
    except AlreadyExistsError:
        existing = await _get(client, change.api_version, change.kind, name=change.name, namespace=change.namespace)
        if existing is None or existing.metadata.deletion_timestamp is not None:
            raise _MissingError("the object before it is still being deleted") from None
        raise
    if "status" in tree:
        after = _at_generation(TreeChange({}, tree), obj.metadata.generation - change.generation).after
        await _patch_status(client, obj, {"status": after["status"]}, owner)


async def _update(client: Client, change: ForeignChange, fields: TreeChange) -> None:
    owner = change.manager or PLAYER
    for attempts_left in reversed(range(_ATTEMPTS)):
        current = await _existing(client, change)
        patch = _patch_of(current, fields)
        if change.kind == "Pod" and (node := (patch.get("spec") or {}).get("nodeName")):
            await _bind(client, current, str(node))
            current = await _existing(client, change)
            patch = _patch_of(current, fields)
        patch.pop("status", None)
        try:
            if patch:
                await client.patch(current, merge_patch(_at_version(current, patch)), field_owner=owner)
            # The write before may have raised the generation.
            observed = _at_generation(fields, current.metadata.generation - change.generation)
            if "status" in (patch := _patch_of(current, observed)):
                await _patch_status(client, current, {"status": patch["status"]}, owner)
        except ConflictError:
            if not attempts_left:
                raise
        else:
            return


async def _bind(client: Client, pod: Unstructured, node: str) -> None:
    """Do what the scheduler does: a Pod gets its node by a subresource only."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    tree = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.metadata.name}, "target": target}
    await client.subresource("binding").create(pod, Unstructured.from_tree(tree))


def _at_generation(fields: TreeChange, ahead: int) -> TreeChange:
    """Return fields whose status has observed as much as in the recording.

    Args:
        fields: of a change.
        ahead: of the recorded object, the generation of this object.
    """
    status = fields.after.get("status")
    if not ahead or not isinstance(status, dict):
        return fields
    return TreeChange(fields.before, {**fields.after, "status": _moved(status, ahead)})


def _moved(value: JsonValue, ahead: int) -> JsonValue:
    if isinstance(value, dict):
        return {
            name: max(item + ahead, 0)
            if name == "observedGeneration" and isinstance(item, int)
            else _moved(item, ahead)
            for name, item in value.items()
        }
    return [_moved(item, ahead) for item in value] if isinstance(value, list) else value


def _patch_of(current: Unstructured, fields: TreeChange) -> JsonObject:
    tree = to_dict(current)
    patch = create_merge_patch(tree, merged(tree, fields))
    assert isinstance(patch, dict)
    return patch


def _at_version(current: Unstructured, patch: JsonObject) -> JsonObject:
    """Return a patch that fails if the object has changed: it may have whole lists."""
    metadata = {**(patch.get("metadata") or {}), "resourceVersion": current.metadata.resource_version}
    return {**patch, "metadata": metadata}


async def _patch_status(client: Client, obj: Unstructured, patch: JsonObject, owner: str) -> None:
    try:
        await client.status().patch(obj, merge_patch(patch), field_owner=owner)
    except ApiError as error:
        if error.code not in _NO_SUBRESOURCE:
            raise
        # The status is a field as others.
        await client.patch(obj, merge_patch(patch), field_owner=owner)


async def _delete(client: Client, change: ForeignChange) -> None:
    """Delete an object. A Pod has two deletions: the second one is the kubelet's, and ends the first."""
    ends = "deletionTimestamp" in (change.before.get("metadata") or {})
    obj = await _get(client, change.api_version, change.kind, name=change.name, namespace=change.namespace)
    if obj is None:
        if ends:
            return
        raise _MissingError(_ABSENT)
    if not ends:
        await client.delete(obj, missing_ok=True)
    elif obj.metadata.deletion_timestamp is not None:
        await client.delete(obj, missing_ok=True, grace_period_seconds=0)
    else:
        raise _MissingError("this version has not deleted it")


async def _existing(client: Client, change: ForeignChange) -> Unstructured:
    obj = await _get(client, change.api_version, change.kind, name=change.name, namespace=change.namespace)
    if obj is None:
        raise _MissingError(_ABSENT)
    return obj


async def _get(client: Client, api_version: str, kind: str, *, name: str, namespace: str = "") -> Unstructured | None:
    """Return an object; None without one. The namespace does not count for a cluster-scoped kind."""
    target = unstructured_kind(api_version, kind)
    mapping = await client.mapper.mapping_for(target.gvk)
    return await client.get_or_none(target, name, namespace=namespace if mapping.namespaced else "")
