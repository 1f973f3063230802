"""`FieldApplier` applies single fields of objects of other owners, and takes them back. It never creates an object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

from opsdk.apimachinery.codec import decode_tree
from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import Kind, kind_of_object, metadata_only
from opsdk.apimachinery.object import KubeObject, TypedObject, Unstructured, key_of, to_dict
from opsdk.children.applier import Applier
from opsdk.children.apply_record import ApplyOutcome, ApplyRecord, RemainingDifferences
from opsdk.children.contention import Contention
from opsdk.children.decision import Declared, Keep, compare_declared, decide_write
from opsdk.children.drift import Drift
from opsdk.children.explanation import ApplyReason, Explanation
from opsdk.children.memory import Memory
from opsdk.children.ownership import APPLY
from opsdk.client.operations import Apply
from opsdk.client.options import WriteOptions
from opsdk.errors import ConflictError, InvalidError, NoMatchError, NotFoundError, UsageError
from opsdk.structured_merge.value import JsonObject

T = TypeVar("T", bound=TypedObject | Unstructured)

_RECORDS: Final = 4096
_MAX_BYTES: Final = 16 << 20


class _FieldsIdentity(NamedTuple):
    """The fields of one manager in one object."""

    gvk: GroupVersionKind
    key: ObjectKey
    manager: str


class FieldApplier(Applier):
    """Applies single fields of objects that exist, each caller under a field manager of its own.

    Server-side apply creates an object that does not exist. So a request names the uid of the object that was read: the
    server rejects it if that object is gone.

    Args are those of `Applier`. The memory has the newest 4096 sets of fields.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._field_records: Memory[_FieldsIdentity, ApplyRecord] = Memory(
            _RECORDS, weigh=ApplyRecord.weight, max_bytes=_MAX_BYTES
        )
        self._field_contentions: Memory[_FieldsIdentity, Contention] = Memory(_RECORDS)

    async def apply_fields(self, desired: T, *, managers: Sequence[str], force: bool = True) -> T:
        """Make fields of an object match `desired`, and return the live object. `desired` is not changed.

        Args:
            desired: the fields. A field of an earlier call that is left out now is removed.
            managers: the field manager that owns them, then its former names, whose fields are taken back.
            force: take fields over from other managers.

        Raises:
            NotFoundError: the object does not exist. Nothing was created.
            ConflictError: other managers own fields with different values, and `force` is False.
            ContendedError: another writer undoes the same apply repeatedly. The next write waits.
            UsageError: `desired` has no name, owners, a status, or a field that its type does not allow.
            ApiError: the server rejected the apply.
        """
        kind, key = kind_of_object(desired), key_of(desired)
        if desired.metadata.owner_references or desired.metadata.finalizers:
            raise UsageError(
                f"{kind.name} {key}: fields of an object of another owner cannot contain ownerReferences or finalizers:"
                " remove them, or apply a child with ctx.apply"
            )
        declared = self._declare(desired, None, b"")
        live: T | None = await self._client.get_or_none(kind, key)
        if live is None:
            live = await self._client.get_or_none(kind, key, uncached=True)
        if live is None:
            raise _not_found(kind, key)
        applied = await self._write_fields(declared, kind, live, managers[0], force=force)
        if len(managers) > 1 and _owns_fields(live, managers[1:]):
            await self.take_back(kind, key, managers=managers[1:])
        return applied

    async def _write_fields(self, declared: Declared, kind: Kind[T], live: T, manager: str, *, force: bool) -> T:
        """Send the fields that differ, if there are any, and return the live object."""
        identity = _FieldsIdentity(kind.gvk, declared.key, manager)
        record = self._field_records.get(identity)
        version = (live.metadata.uid, live.metadata.resource_version)
        if record is not None and record.digest == declared.digest and record.is_at(*version):
            return live
        tree, own = to_dict(live), manager
        decision = decide_write(declared, tree, record, field_owner=own, applied=own, drift=Drift.REPAIR)
        if isinstance(decision, Keep):
            assert decision.outcome is not None
            self._keep_record(identity, declared, live, decision.outcome)
            return live
        self._slow_down(decision, self._field_contentions, identity, manager)
        self._report(decision.explanation)
        changes = decision.changes(force=force)
        sent = await self._send_fields(kind, declared.tree, live.metadata.uid, manager, force=force, changes=changes)
        live_tree = to_dict(sent)
        comparison, owned, _ = compare_declared(live_tree, declared, manager)
        self._keep_record(identity, declared, sent, ApplyOutcome(RemainingDifferences.of(comparison), owned))
        return decode_tree(live_tree, kind)

    async def take_back(self, kind: Kind[Any], key: ObjectKey, *, managers: Sequence[str]) -> None:
        """Remove the fields that only `managers` applied. Nothing is sent without such fields, or without the object.

        Raises `ApiError` if the server rejected the request.
        """
        try:
            live = await self._client.get_or_none(metadata_only(kind), key, uncached=True)
        except NoMatchError:
            return  # the definition was deleted, and its objects with it
        if live is None:
            return
        metadata = {"name": key.name} | ({"namespace": key.namespace} if key.namespace else {})
        tree = {"apiVersion": str(kind.gvk.group_version), "kind": kind.name, "metadata": metadata}
        for manager in managers:
            self._field_records.forget(_FieldsIdentity(kind.gvk, key, manager))
            if not _owns_fields(live, [manager]):
                continue
            self._report(Explanation(gvk=kind.gvk, key=key, reason=ApplyReason.TAKEN_BACK))
            try:
                await self._send_fields(kind, tree, live.metadata.uid, manager, force=True, changes=False)
            except NotFoundError:
                return

    async def _send_fields(
        self, kind: Kind[Any], tree: JsonObject, uid: str, manager: str, *, force: bool, changes: bool
    ) -> Unstructured:
        """Send an apply to the object with this uid. Raises `NotFoundError` if it is gone."""
        sent = Unstructured.from_tree({**tree, "metadata": {**tree["metadata"], "uid": uid}})
        options = WriteOptions(field_owner=manager, force=force)
        try:
            await self._client.executor.execute(Apply(obj=sent, options=options, changes=changes))
        except (ConflictError, InvalidError) as error:
            # Another uid is a conflict for an absent object, and invalid for one that was created again.
            current = await self._client.get_or_none(metadata_only(kind), key_of(sent), uncached=True)
            if current is None or current.metadata.uid != uid:
                raise _not_found(kind, key_of(sent)) from error
            raise
        return sent

    def _keep_record(self, identity: _FieldsIdentity, declared: Declared, live: Any, outcome: ApplyOutcome) -> None:
        """Remember a successful apply, to compare with at the next one."""
        previous = self._field_records.get(identity)
        before = b""
        if previous is not None:
            before = previous.digest if previous.digest != declared.digest else previous.previous_digest
        record = ApplyRecord(
            uid=live.metadata.uid,
            resource_version=live.metadata.resource_version,
            source=b"",
            digest=declared.digest,
            remaining=outcome.remaining,
            owned=outcome.owned,
            previous_digest=before,
        )
        self._field_records.remember(identity, record)


def _owns_fields(live: KubeObject, managers: Sequence[str]) -> bool:
    """Whether one of the managers has applied fields of the object."""
    entries = live.metadata.managed_fields
    return any(each.operation == APPLY and not each.subresource and each.manager in managers for each in entries)


def _not_found(kind: Kind[Any], key: ObjectKey) -> NotFoundError:
    return NotFoundError(
        f"{kind.name} {key} does not exist, and ctx.apply_fields creates nothing: wait for it with ctx.require, or "
        "create it with ctx.apply"
    )
