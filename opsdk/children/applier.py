"""`Applier` applies children with server-side apply, and sends no request if nothing differs."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec

from opsdk.aio.clock import monotonic
from opsdk.aio.fence import follows_another_leader
from opsdk.apimachinery.codec import decode_tree
from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import AnyKind, Kind, kind_of, kind_of_object, metadata_only
from opsdk.apimachinery.model import encode_hook, to_builtins
from opsdk.apimachinery.object import (
    AnyObject,
    KubeObject,
    PartialObjectMetadata,
    TypedObject,
    Unstructured,
    gvk_of,
    key_of,
    origin_of,
    shared_tree,
    to_dict,
    was_decoded,
)
from opsdk.base.durations import shown_seconds
from opsdk.children.adoption import check_live, terminating
from opsdk.children.applier_memory import ApplierMemory
from opsdk.children.apply_record import ApplyOutcome, ApplyRecord, RemainingDifferences
from opsdk.children.contention import Contention
from opsdk.children.decision import (
    Declared,
    Keep,
    Repetition,
    Send,
    TakeOver,
    compare_declared,
    create,
    decide,
    decide_write,
    own_fields,
)
from opsdk.children.desired import check_desired, with_encoded_strings, without_trace
from opsdk.children.drift import Drift
from opsdk.children.explanation import ApplyReason, Explanation
from opsdk.children.former_owners import FormerOwners
from opsdk.children.memory import Memory
from opsdk.children.other_process import OtherProcess
from opsdk.children.pruning import Identity, PruneVerdict, judge
from opsdk.children.resolver import TypeResolver
from opsdk.client.client import Client
from opsdk.client.operations import Apply
from opsdk.client.options import WriteOptions
from opsdk.client.patch import json_patch
from opsdk.client.ports import observe_removals
from opsdk.errors import (
    AlreadyOwnedError,
    ConflictError,
    ContendedError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UsageError,
)
from opsdk.recipes.owner_references import controller_of, set_controller_reference
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.telemetry.records import Contended, TelemetryHook

__all__ = ["Applier"]

T = TypeVar("T", bound=TypedObject | Unstructured)
IdentityT = TypeVar("IdentityT")
log = logging.getLogger("opsdk.children")

_ABSENT: Final = (
    "the object does not exist, so the apply creates it, and needs all required fields. To set single fields of an "
    "object of another owner, which must not be created, call ctx.apply_fields"
)
_DELETE_ATTEMPTS: Final = 5
"""A pruned object may change between read and delete. More changes than this mean a loop of another writer."""


class Applier:
    """Applies desired objects, only if the server would change the live object.

    The decision needs no memory of earlier applies: ``managedFields`` of the live object show which fields an earlier
    apply owns, and the schemas define in which form the server writes a value. So a restart sends nothing. Reads
    go through the client's cache. A stale cache costs one request without effect.

    Some results cannot be known in advance: values that admission changes, defaults that this version of opsdk does not
    know, types without a schema. Then one apply is sent, and what still differs after it is remembered: the same
    desired object sends nothing while the same fields have the same live values. This memory is bounded and ends with
    the process. If the cache strips ``managedFields``, values alone are compared, and each object is applied once for
    each process and desired state.

    Unstructured custom resources have no schema here, unless `crds` has it or the scheme has their class. Then the type
    is inferred from the fields that the earlier apply owns.

    >>> async def reconcile(client: Client, site: TypedObject, config: Unstructured) -> None:
    ...     applier = Applier(client, field_owner="site-operator", on_write=print)
    ...     await applier.apply(config, owner=site)

    Args:
        client: reads (from its cache, if it has one) and writes.
        field_owner: the field manager of all applies.
        drift: the reaction to a change of an applied field by another manager.
        on_write: is called with the explanation of each write, before the write. It must not raise.
        crds: CustomResourceDefinitions as JSON trees, for the schemas of unstructured objects.
        size: how many objects are remembered, in at most 64 MiB. Beyond that, an apply takes more time, and sometimes a
            request. An object that leaves the client's cache is forgotten.
        former_field_owners: field managers whose fields are taken over, as client-go's csaupgrade does: former names of
            the operator. With `field_owner` itself, the fields of its updates, such as a ``create``, are taken over.
        former_applier: a field manager whose applies, but not updates, are taken over.
        hook: receives a `Contended` record with each log line about a fight with another writer.
        other_process: warns of another process with the same field manager; None where there may be several.

    Attributes:
        memory: the results of earlier applies, see `size`.
    """

    def __init__(
        self,
        client: Client,
        *,
        field_owner: str,
        drift: Drift = Drift.REPAIR,
        on_write: Callable[[Explanation], None] | None = None,
        crds: Sequence[Mapping[str, JsonValue]] = (),
        size: int = 100_000,
        former_field_owners: Collection[str] = (),
        former_applier: str = "",
        hook: TelemetryHook | None = None,
        other_process: OtherProcess | None = None,
    ) -> None:
        if not field_owner:
            raise UsageError("an Applier needs a field_owner: the name of the operator, for example")
        self._client = client
        self._owner = field_owner
        self._former = FormerOwners(field_owner, tuple(former_field_owners), former_applier)
        self._hook = hook or TelemetryHook()
        self._other_process = other_process
        self._drift = drift
        self._on_write = on_write
        self._types = TypeResolver(client.scheme, crds)
        self.memory = ApplierMemory(size)
        self._observed: set[GroupVersionKind] = set()

    # -------------------------------------------------------------- applying
    async def apply(self, desired: T, *, owner: KubeObject | None = None, force: bool = True) -> T:
        """Make the object match `desired`, and return the live object. `desired` is not changed.

        Args:
            desired: the desired fields only. Fields that others or defaults set stay. A field of an earlier call
                that is left out now is removed.
            owner: made the controller of the object (see `set_controller_reference`).
            force: take fields over from other managers.

        Raises:
            AlreadyOwnedError: another object is the controller. Nothing is sent.
            ContendedError: another writer undoes the same apply repeatedly. The next write waits.
            ConflictError: other managers own fields with different values, and `force` is False.
            TerminatingError: the live object is being deleted. Retry: the object is created again when it is gone.
            UsageError: `desired` has no name, a status, or a field that its type does not allow. Nothing is sent.
            ApiError: the server rejected the apply.
        """
        kind, key, check = kind_of_object(desired), key_of(desired), _OwnerCheck(self._client, owner)
        return await self._apply(desired, kind, key, owner=owner, force=force, check=check)

    async def _apply(
        self, desired: T, kind: Kind[T], key: ObjectKey, *, owner: KubeObject | None, force: bool, check: _OwnerCheck
    ) -> T:
        """Apply a child unless the live object is as it was after the last apply."""
        source = _input_digest(desired, owner)
        record = self.memory.records.get((kind.gvk, key))
        live: T | None = None
        if record is not None and source and record.source == source:
            live = await self._client.get_or_none(kind, key)
            if live is not None and record.is_at(live.metadata.uid, live.metadata.resource_version):
                return live
        declared = self._declare(desired, owner, source)
        if live is None:
            live = await self._client.get_or_none(kind, key)
        if live is None:
            await check.before_create()
            return await self._write(create(declared), kind, owner=owner, force=force)
        check_live(live, owner)
        await check.before_repair(live)
        return await self._repair(declared, kind, live, owner=owner, force=force)

    async def _repair(self, declared: Declared, kind: Kind[T], live: T, *, owner: KubeObject | None, force: bool) -> T:
        """Write the difference between the live object and the desired one, if there is any."""
        tree = _live_tree(live)
        record = self.memory.records.get((declared.gvk, declared.key))  # another task may have applied it concurrently
        decision = decide(declared, tree, record, former=self._former, drift=self._drift)
        if isinstance(decision, TakeOver):
            live, tree = await self._take_over(decision, tree, kind)
            own = self._owner
            decision = decide_write(declared, tree, record, field_owner=own, applied=own, drift=self._drift)
        if isinstance(decision, Keep):
            return self._keep(declared, kind, live, decision)
        self._slow_down(decision, self.memory.contentions, (declared.gvk, declared.key), self._owner)
        if decision.take_over is not None:
            await self._take_over(decision.take_over, tree, kind)
        return await self._write(decision, kind, owner=owner, force=force)

    def _keep(self, declared: Declared, kind: Kind[T], live: T, decision: Keep) -> T:
        if decision.remaining is not None:
            self._report(decision.remaining)
        if decision.outcome is not None:
            self._remember(declared, kind, live, decision.outcome)
        return live

    def _slow_down(
        self, write: Send, contentions: Memory[IdentityT, Contention], identity: IdentityT, field_owner: str
    ) -> None:
        """Count a write of an unchanged desired object. Raises `ContendedError` while the next one must wait."""
        gvk, key, explanation = write.declared.gvk, write.declared.key, write.explanation
        if write.repetition is Repetition.CHANGED:
            contentions.forget(identity)
        if write.repetition is not Repetition.UNCHANGED:
            return
        now = monotonic()
        contention = contentions.get(identity) or Contention()
        contentions[identity] = contention
        wait = contention.wait(now=now)
        others = sorted({change.manager for change in explanation.changes if change.manager}) or [field_owner]
        text = (
            f"{gvk.kind} {key}: the field managers {field_owner} and {', '.join(others)} each apply "
            f"again after the other: {explanation}"
        )
        if wait > 0:
            raise ContendedError(f"{text}; next write in {shown_seconds(wait)}")
        contention.written(now=now)
        if contention.delay:
            self._hook.record(Contended(field_owner=field_owner, kind=gvk.kind))
            log.warning("%s; the next write waits for %g s", text, contention.delay)

    async def _take_over(self, decision: TakeOver, tree: JsonObject, kind: Kind[T]) -> tuple[T, JsonObject]:
        """Move the fields of former field managers to the own one, and return the live object with its tree."""
        sent = Unstructured.from_tree(tree)
        self._report(decision.explanation)
        await self._client.patch(sent, json_patch(self._former.patch(tree)), field_owner=self._owner)
        live_tree = _live_tree(sent)
        return decode_tree(live_tree, kind), live_tree

    @property
    def field_owner(self) -> str:
        """The field manager of all applies."""
        return self._owner

    def is_own(self, manager: str) -> bool:
        """Whether a field manager of applies is the own one, or a former one."""
        return manager == self._owner or manager in self._former

    async def pending(self, desired: T, *, owner: KubeObject | None = None) -> Explanation | None:
        """Return the reason for a write of `apply`, or None if it would send none. No writes; raises as `apply`."""
        kind, key = kind_of_object(desired), key_of(desired)
        declared = self._declare(desired, owner, b"")
        live: T | None = await self._client.get_or_none(kind, key)
        if live is None:
            return create(declared).explanation
        check_live(live, owner)
        record = self.memory.records.get((kind.gvk, key))
        decision = decide(declared, _live_tree(live), record, former=self._former, drift=self._drift)
        return None if isinstance(decision, Keep) else decision.explanation

    def _declare(self, desired: T, owner: KubeObject | None, source: bytes) -> Declared:
        """Return the desired object with its owner, its digest and the fields that it owns. Raises `UsageError`."""
        if isinstance(desired, PartialObjectMetadata):
            raise UsageError("metadata alone cannot be applied: pass a typed or an unstructured object")
        gvk, key = gvk_of(desired), key_of(desired)
        tree = without_trace(shared_tree(desired))
        if owner is not None:
            # Change a copy, not the caller's object.
            child = PartialObjectMetadata(
                desired.api_version, desired.kind, msgspec.convert(tree["metadata"], type(desired.metadata))
            )
            set_controller_reference(owner, child)
            references = to_builtins(child.metadata.owner_references)
            tree = {**tree, "metadata": {**tree["metadata"], "ownerReferences": references}}
        digest = hashlib.blake2b(msgspec.json.encode(tree, order="deterministic"), digest_size=16).digest()
        resolved = self._types.resolve(gvk, type(desired))
        to_own = self.memory.owned_fields.get(digest)
        if to_own is None:
            check_desired(tree, gvk, key, resolved)
        tree = with_encoded_strings(tree)
        if to_own is None and resolved is not None:
            to_own = own_fields(tree, resolved.field_type, resolved.ignored)
            self.memory.owned_fields.remember(digest, to_own)
        return Declared(gvk, key, source, tree, digest, resolved, to_own)

    async def _write(self, write: Send, kind: Kind[T], *, owner: KubeObject | None, force: bool) -> T:
        """Send the apply, and remember what remains different. Raises `TerminatingError` for a deleted object."""
        declared = write.declared
        self._report(write.explanation)
        sent = Unstructured.from_tree(declared.tree)
        try:
            await self._send(write, sent, force=force)
        except InvalidError as error:
            if write.explanation.reason is ApplyReason.CREATE:
                error.add_note(_ABSENT)
            if owner is not None:
                # A second controller is invalid. The cache did not have the object, or not its controller.
                current = await self._client.get_or_none(kind, declared.key, uncached=True)
                if current is not None:
                    check_live(current, owner)
            raise
        live_tree = _live_tree(sent)
        if sent.metadata.deletion_timestamp is not None:
            raise terminating(sent)
        comparison, owned, _ = compare_declared(live_tree, declared, self._owner)
        self._remember(declared, kind, sent, ApplyOutcome(RemainingDifferences.of(comparison), owned))
        return decode_tree(live_tree, kind)

    async def _send(self, write: Send, sent: Unstructured, *, force: bool) -> None:
        options = WriteOptions(field_owner=self._owner, force=force)
        apply = Apply(obj=sent, options=options, changes=write.changes(force=force))
        identity, other = (write.declared.gvk, write.declared.key), self._other_process
        # Without a record, no other task of this process has created it since the read that did not find it.
        if other is None or write.explanation.reason is not ApplyReason.CREATE or identity in self.memory.records:
            await self._client.executor.execute(apply)
            return
        statuses: list[int] = []
        with other.creation(identity) as creation:
            await self._client.executor.execute(msgspec.structs.replace(apply, answered=statuses.append))
        child = f"{identity[0].kind} {identity[1]}"
        for status in statuses:
            other.check(creation, status, sent.metadata, field_owner=self._owner, child=child)

    def _remember(self, declared: Declared, kind: Kind[Any], live: KubeObject, outcome: ApplyOutcome) -> None:
        """Keep the record of a successful apply, to compare with at the next one."""
        meta = live.metadata
        self._observe(kind)
        previous = self.memory.records.get((declared.gvk, declared.key))
        before = b"" if previous is None else previous.digest
        if previous is not None and previous.digest == declared.digest:
            before = previous.previous_digest
        self.memory.remember(
            declared.gvk,
            declared.key,
            ApplyRecord(
                uid=meta.uid,
                resource_version=meta.resource_version,
                source=declared.source,
                digest=declared.digest,
                remaining=outcome.remaining,
                owned=outcome.owned,
                previous_digest=before,
            ),
        )

    def _observe(self, kind: Kind[Any]) -> None:
        """Forget the objects of a kind when they leave the cache. Without a cache, the limits bound the memory."""
        if kind.gvk not in self._observed and observe_removals(self._client.executor, kind, self.memory.forget):
            self._observed.add(kind.gvk)

    def _report(self, explanation: Explanation) -> None:
        log.debug("%s", explanation)
        if self._on_write is not None:
            self._on_write(explanation)

    # -------------------------------------------------------------- many children
    async def apply_all(
        self,
        desired: Sequence[T],
        *,
        owner: KubeObject,
        prune: Sequence[AnyKind] | None = None,
        force: bool = True,
        concurrency: int = 1,
    ) -> list[T]:
        """Apply every object in order, then delete the owner's objects of the `prune` kinds that are not desired.

        An object is deleted only if `owner` controls it and an earlier apply of this field manager made it. This is
        read from the object, so pruning also works after a restart. Nothing is deleted if an apply fails. Cancellation
        leaves the objects that were applied before.

        Args:
            desired: the children. Each namespace and name occurs once for a kind.
            owner: made the controller of each child.
            prune: kinds to delete from, as they are cached: a class, ``unstructured_kind(...)`` or
                ``metadata_only(...)``.
                They are listed in the owner's namespace, or in all namespaces for a cluster-scoped owner. None or
                empty deletes nothing.
            force: take fields over from other managers.
            concurrency: how many applies run at the same time. 1 keeps the order.

        Returns:
            The live objects in the order of `desired`.

        Raises:
            UsageError: an object occurs twice; or see `apply`.
            OpsdkError: the first error of `apply`; the applies that were not started are left out.
        """
        kinds = [kind_of_object(obj) for obj in desired]
        identities = _identities(kinds, desired)
        results: dict[int, T] = {}
        errors: list[Exception] = []
        remaining = iter(enumerate(desired))
        check = _OwnerCheck(self._client, owner)

        async def work() -> None:
            for index, obj in remaining:
                if errors:
                    return
                try:
                    key = identities[index][1]
                    results[index] = await self._apply(obj, kinds[index], key, owner=owner, force=force, check=check)
                except Exception as error:  # noqa: BLE001 - raised below, when the other workers have ended
                    errors.append(error)

        if min(concurrency, len(desired)) <= 1:
            await work()
        else:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(desired))):
                    group.create_task(work())
        if errors:
            raise errors[0]
        await self._prune_all(prune or (), owner, identities)
        return [results[index] for index in range(len(desired))]

    async def prune(self, desired: Sequence[AnyObject], *, owner: KubeObject, kinds: Sequence[AnyKind]) -> None:
        """Delete the owner's objects of some kinds that are not desired, see `apply_all`."""
        await self._prune_all(kinds, owner, _identities([kind_of_object(obj) for obj in desired], desired))

    async def _prune_all(self, kinds: Sequence[AnyKind], owner: KubeObject, desired: Sequence[Identity]) -> None:
        identities = frozenset(desired)
        for kind in kinds:
            await self._prune(kind_of(kind), owner, identities)

    async def _prune(self, kind: Kind[Any], owner: KubeObject, desired: frozenset[Identity]) -> None:
        """Delete the owner's children of one kind that are no longer desired."""
        namespace, uid = owner.metadata.namespace, owner.metadata.uid
        # Most objects are desired: without them, nothing is decoded.
        keys = frozenset([key for group_kind, key in desired if group_kind == kind.gvk.group_kind])
        for obj in await self._client.list(kind, namespace=namespace, owner_uid=uid, exclude=keys):
            verdict = judge(obj, owner=owner, field_owner=self._owner, former=self._former, desired=desired)
            identity, version = (kind.gvk, key_of(obj)), (obj.metadata.uid, obj.metadata.resource_version)
            if verdict is PruneVerdict.KEEP or self.memory.foreign.get(identity) == version:
                continue
            if verdict is PruneVerdict.DELETE and await self._delete(obj):
                continue
            # The cache is stale or strips managedFields, so check the server's metadata.
            if not await self._prune_uncached(metadata_only(kind), key_of(obj), owner, desired):
                self._observe(kind)
                self.memory.foreign.remember(identity, version)

    async def _prune_uncached(
        self, kind: Kind[PartialObjectMetadata], key: ObjectKey, owner: KubeObject, desired: frozenset[Identity]
    ) -> bool:
        """Delete the object if the server's metadata confirm it; return False if it is kept."""
        for _ in range(_DELETE_ATTEMPTS):
            current = await self._client.get_or_none(kind, key, uncached=True)
            if current is None:
                return True
            verdict = judge(current, owner=owner, field_owner=self._owner, former=self._former, desired=desired)
            if verdict is not PruneVerdict.DELETE:
                return False
            if await self._delete(current):
                return True
        raise ConflictError(
            f"{kind.name} {key} changed {_DELETE_ATTEMPTS} times while it was being pruned: retry later"
        )

    async def _delete(self, obj: AnyObject) -> bool:
        """Delete exactly this version of the object; False if it has changed."""
        gvk, key, meta = gvk_of(obj), key_of(obj), obj.metadata
        try:
            await self._client.delete(
                obj, uid=meta.uid, resource_version=meta.resource_version, propagation="Background"
            )
        except ConflictError:
            return False
        except NotFoundError:
            log.debug("%s %s is deleted already", gvk.kind, key)
        else:
            self._report(Explanation(gvk=gvk, key=key, reason=ApplyReason.PRUNED))
        self.memory.forget(gvk, key)
        return True


class _OwnerCheck:
    """Checks that no newer object has the owner's kind and name. It may control the child.

    The cache of a new leader may still have the deleted owner. Its reference would let the garbage collector delete the
    child of the new one. The cache may lack that child too, so a new leader checks creates, once in a pass. Other
    replicas wrote all that they did not see, or began with a complete list: the check would be a request for nothing.
    """

    def __init__(self, client: Client, owner: KubeObject | None) -> None:
        self._client = client
        self._owner = owner
        self._is_current = False

    async def before_create(self) -> None:
        """Raise `AlreadyOwnedError` if a newer owner exists. Without the permission to get it, there is no check."""
        if self._owner is None or self._is_current or not follows_another_leader():
            return
        try:
            current = await self._get(self._owner)
        except ForbiddenError:
            return
        if current is not None and current.metadata.uid != self._owner.metadata.uid:
            raise AlreadyOwnedError(
                f"{current.kind} {key_of(current)} has the uid {current.metadata.uid}, and the one with uid "
                f"{self._owner.metadata.uid} no longer exists: the cache is old"
            )
        self._is_current = current is not None

    async def before_repair(self, live: KubeObject) -> None:
        """Raise `AlreadyOwnedError` if the controller of the live object was created after the owner."""
        controller = controller_of(live)
        if self._owner is None or controller is None or controller.uid == self._owner.metadata.uid:
            return
        current = await self._get(self._owner)
        if current is None or current.metadata.uid != self._owner.metadata.uid:
            raise AlreadyOwnedError(
                f"{live.kind} {key_of(live)} is controlled by {controller.kind} {controller.name} (uid "
                f"{controller.uid}). The one with uid {self._owner.metadata.uid} no longer exists: the cache is old"
            )

    async def _get(self, owner: KubeObject) -> KubeObject | None:
        kind: Kind[Any] = kind_of_object(cast("Any", owner))
        current: KubeObject | None = await self._client.get_or_none(kind, key_of(owner), uncached=True)
        return current


# ------------------------------------------------------------------ helpers
def _identities(kinds: Sequence[Kind[Any]], desired: Sequence[AnyObject]) -> list[Identity]:
    """Return group, kind and key of each object. Raises `UsageError` if two are the same."""
    identities = [(kind.gvk.group_kind, key_of(obj)) for kind, obj in zip(kinds, desired, strict=True)]
    for twice in [identity for identity, count in Counter(identities).items() if count > 1]:
        raise UsageError(f"{twice[0]} {twice[1]} is desired twice: merge both objects into one")
    return identities


def _input_digest(desired: AnyObject, owner: KubeObject | None) -> bytes:
    """Return a digest of the caller's arguments: equal digests mean equal desired objects. b"" if unknown.

    It lets a repeated call, the usual case, skip the preparation of the desired object.
    """
    if was_decoded(desired):
        return b""  # fields that the class does not know are outside the encoding
    identity = (owner.api_version, owner.kind, *key_of(owner), owner.metadata.uid) if owner is not None else ()
    try:
        encoded = msgspec.json.encode((desired, identity), enc_hook=encode_hook)
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError):
        return b""  # `shared_tree` raises it, with the name of the object
    return hashlib.blake2b(encoded, digest_size=16).digest()


def _live_tree(live: AnyObject) -> JsonObject:
    """Return the JSON tree of the live object as the server returned it."""
    origin = origin_of(live)
    return to_dict(live) if origin is None else origin
