"""`ObjectSet` reconciles a set of objects: it creates and updates desired objects, and deletes the others.

The objects have labels and annotations with the identity of their set, those that wrangler's apply writes. So it
adopts sets that Rancher wrote.

Upstream: github.com/rancher/wrangler/pkg/apply (Apply, DesiredSet);
k8s.io/enhancements/keps/sig-cli/3659-kubectl-apply-prune (ApplySet)
Deviates: server-side apply is the default. An object of another set is an error, and is not adopted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from opsdk.aio.clock import monotonic
from opsdk.aio.token_bucket import TokenBucket
from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.kinds import AnyKind, Kind, kind_of, kind_of_object, metadata_only, unstructured
from opsdk.apimachinery.object import (
    AnyObject,
    KubeObject,
    PartialObjectMetadata,
    Unstructured,
    deep_copy,
    gvk_of,
    key_of,
    origin_of,
    to_tree,
)
from opsdk.children.applier import Applier
from opsdk.children.explanation import ApplyReason, Explanation
from opsdk.children.ownership import APPLY
from opsdk.children.pruning import Identity, identity_of
from opsdk.children.set_identity import (
    APPLIED,
    APPLY_SET_PART_OF,
    HASH,
    PRUNE,
    SetIdentity,
    SetOwner,
)
from opsdk.children.three_way import adoption_patch, applied_object, three_way_patch
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.errors import (
    AlreadyOwnedError,
    ConflictError,
    InvalidError,
    NoMatchError,
    NotFoundError,
    TerminatingError,
    UsageError,
)
from opsdk.lifecycle.apply_set import ApplySetParent
from opsdk.lifecycle.set_options import Child, ObjectSetOptions, SetMode, SetPlan
from opsdk.recipes.owner_references import set_controller_reference

_DELETE_ATTEMPTS: Final = 5
"""As `opsdk.children.applier`: more changes between read and delete mean that another writer runs in a loop."""


class ObjectSet:
    """A set of objects that are applied and pruned together.

    A run may stop between any two writes: the next one completes it. Objects that no set of this identity wrote are not
    changed, even with copied labels.

    >>> async def reconcile(client: Client, applier: Applier, site: Unstructured, parts: list[Child]) -> None:
    ...     options = ObjectSetOptions(set_owner_reference=True)
    ...     parts_of_site = ObjectSet(client, applier, set_id="site", owner=site, kinds=[ConfigMap], options=options)
    ...     print(await parts_of_site.plan(parts))
    ...     await parts_of_site.apply(parts)

    Args:
        client: reads, from its cache if it has one, and writes.
        applier: applies, and names the field manager: ``cluster.applier()``.
        set_id: distinguishes the sets of one owner. It must not change: objects of the old set are not pruned.
        owner: an object, or a `SetOwner`.
        kinds: the kinds of the objects, which are pruned.
        options: see `ObjectSetOptions`.

    Raises:
        UsageError: there is neither a set id nor an owner, or an option needs an owner.
    """

    def __init__(
        self,
        client: Client,
        applier: Applier,
        *,
        set_id: str = "",
        owner: KubeObject | SetOwner | None = None,
        kinds: Sequence[AnyKind] = (),
        options: ObjectSetOptions | None = None,
    ) -> None:
        self.options = options or ObjectSetOptions()
        self._client = client
        self._applier = applier
        self._owner = None if isinstance(owner, SetOwner) else owner
        set_owner = owner if isinstance(owner, SetOwner) or owner is None else SetOwner.of(owner)
        self.identity = SetIdentity(set_id, set_owner)
        self._kinds: dict[GroupKind, Kind[Any]] = {kind_of(kind).gvk.group_kind: kind_of(kind) for kind in kinds}
        self._rate_limiter = TokenBucket(self.options.qps, self.options.burst) if self.options.qps else None
        self._no_delete = {kind_of(kind).gvk.group_kind for kind in self.options.no_delete}
        self._patchers = {kind_of(kind).gvk.group_kind: patch for kind, patch in self.options.patchers.items()}
        self._reconcilers = {kind_of(kind).gvk.group_kind: call for kind, call in self.options.reconcilers.items()}
        self._parent: ApplySetParent | None = None
        if self.options.set_owner_reference and self._owner is None:
            raise UsageError(f"object set {self.identity}: set_owner_reference needs the owner as an object")
        if self.options.apply_set or self.options.dynamic_lookup:
            if set_owner is None:
                raise UsageError(f"object set {self.identity}: apply_set and dynamic_lookup need an owner")
            self._parent = ApplySetParent(client, set_owner, set_id)
        if not kinds and self._parent is None:
            raise UsageError(f"object set {self.identity} has no kinds: pass kinds=[...], or set dynamic_lookup")

    # -------------------------------------------------------------- running
    async def plan(self, objects: Sequence[Child]) -> SetPlan:
        """Return the writes that `apply` would send, without sending them. Raises the errors of `apply`."""
        desired = await self._prepare(objects)
        kinds = await self._all_kinds()
        writes = [write for child in desired if (write := await self._pending_write(child)) is not None]
        identities = {identity_of(child) for child in desired}
        deleted = [_pruned(member) for member in await self._undesired_objects(kinds, identities)]
        return SetPlan.of([*writes, *deleted])

    async def apply(self, objects: Sequence[Child]) -> SetPlan:
        """Create and update in the order of `objects`, then delete the other objects of the set.

        After a failed write, the others are still sent, but nothing is deleted, and the first error is raised with the
        others as notes. Cancellation keeps the writes that were sent before.

        Args:
            objects: the desired fields only. The objects are not changed.

        Returns:
            The writes that were sent.

        Raises:
            AlreadyOwnedError: an object belongs to another set, or another object controls it.
            ConflictError: an object changed concurrently. Retry.
            TerminatingError: an object is being deleted. Retry when it is gone.
            UsageError: an object has no name, a kind or scope that the options exclude, or occurs twice. Nothing is
                sent.
            ApiError: the server rejected a write.
        """
        desired = await self._prepare(objects)
        identities = {identity_of(child) for child in desired}
        kinds = await self._all_kinds()
        if self._parent is not None:
            await self._parent.record(kinds, desired, keep=True)
        writes: list[Explanation] = []
        errors: list[Exception] = []
        for child in desired:
            try:
                write = await self._write(child)
            except Exception as error:  # noqa: BLE001 - raised below, after the other objects
                errors.append(error)
            else:
                writes += [write] if write is not None else []
        if errors:
            for other in errors[1:]:
                errors[0].add_note(f"and: {other}")
            raise errors[0]
        for member in await self._undesired_objects(kinds, identities):
            writes += [_pruned(member)] if await self._delete(member) else []
        if self._parent is not None:
            await self._parent.record({gk: kinds[gk] for gk in {gk for gk, _ in identities}}, desired, keep=False)
        return SetPlan.of(writes)

    async def purge(self) -> SetPlan:
        """Delete all objects of the set. Returns the deleted objects."""
        return await self.apply([])

    # -------------------------------------------------------------- desired objects
    async def _prepare(self, objects: Sequence[Child]) -> list[Child]:
        """Return checked copies with the marks of the set."""
        desired: list[Child] = [deep_copy(obj) for obj in objects]
        for inject in self.options.injectors:
            desired = list(inject(desired))
        for child in desired:
            await self._check(child)
            child.metadata.labels[HASH] = self.identity.hash
            child.metadata.annotations.update(self.identity.annotations)
            if self.options.apply_set and self.identity.owner is not None:
                child.metadata.labels[APPLY_SET_PART_OF] = self.identity.owner.apply_set_id
        for twice in [identity for identity, count in Counter(map(identity_of, desired)).items() if count > 1]:
            raise UsageError(f"{twice[0]} {twice[1]} occurs twice in object set {self.identity}: merge both objects")
        return desired

    async def _check(self, child: Child) -> None:
        """Complete the namespace of a child. Raises `UsageError`."""
        gvk, meta = gvk_of(child), child.metadata
        if gvk.group_kind not in self._kinds:
            if not self.options.dynamic_lookup:
                raise UsageError(
                    f"object set {self.identity} has {gvk.kind} {key_of(child)}, and does not declare {gvk}: add it to "
                    "kinds, or set dynamic_lookup"
                )
            self._kinds[gvk.group_kind] = kind_of_object(child)
        if not (await self._client.mapper.mapping_for(gvk)).namespaced:
            if self.options.restrict_cluster_scoped:
                raise UsageError(
                    f"object set {self.identity} has the cluster-scoped {gvk.kind} {meta.name}, and "
                    "restrict_cluster_scoped excludes it"
                )
            meta.namespace = ""
        elif not meta.namespace:
            owner = self.identity.owner
            meta.namespace = self.options.default_namespace or (owner.key.namespace if owner is not None else "")

    def _controller(self, child: Child) -> KubeObject | None:
        """Return the owner if a reference to it is possible."""
        if not self.options.set_owner_reference or self._owner is None:
            return None
        namespace = self._owner.metadata.namespace
        return self._owner if not namespace or namespace == child.metadata.namespace else None

    # -------------------------------------------------------------- writing
    async def _get_live(self, child: Child) -> Child | None:
        """Return the live object. Raises `AlreadyOwnedError` if it belongs to another set."""
        live: Child | None = await self._client.get_or_none(kind_of_object(child), key_of(child))
        if live is not None and live.metadata.labels.get(HASH) and not self.identity.is_set_of(live):
            owner = SetOwner.read(live.metadata.annotations)
            of_owner = f" of {owner.gvk.kind} {owner.key}" if owner is not None else ""
            raise AlreadyOwnedError(
                f"{live.kind} {key_of(live)} belongs to another object set{of_owner}, so {self.identity} cannot adopt "
                f"it: choose another name, or remove its label {HASH}"
            )
        return live

    async def _pending_write(self, child: Child) -> Explanation | None:
        """Return the write that `child` needs, or None."""
        live = await self._get_live(child)
        if self.options.mode is SetMode.SERVER_SIDE_APPLY:
            return await self._applier.pending(child, owner=self._controller(child))
        if live is None:
            return Explanation(gvk=gvk_of(child), key=key_of(child), reason=ApplyReason.CREATE)
        return None if three_way_patch(self._tree(child), _server_tree(live)) is None else _changed(child)

    async def _write(self, child: Child) -> Explanation | None:
        """Create or update one object. Returns the write, or None."""
        pending = await self._pending_write(child)
        if pending is None:
            return None
        live = await self._get_live(child)
        if live is not None:
            reconciler = self._reconcilers.get(pending.gvk.group_kind)
            if reconciler is not None and await reconciler(self._client, live, child):
                return pending
        await self._wait_for_turn()
        patcher = self._patchers.get(pending.gvk.group_kind)
        if live is not None and patcher is not None:
            await patcher(self._client, live, child)
            return pending
        try:
            await self._send(child, live)
        except InvalidError as error:
            if (
                live is None
                or pending.gvk.group_kind not in self.options.replace_immutable
                or not _is_immutable_error(error)
            ):
                raise
            await self._replace(child, live)
        return pending

    async def _send(self, child: Child, live: Child | None) -> None:
        """Write one child: by apply, create, or three-way patch. Raises `TerminatingError` for a deleted one."""
        if self.options.mode is SetMode.SERVER_SIDE_APPLY:
            patch = adoption_patch(self._tree(child), _server_tree(live)) if live is not None else None
            if patch is not None:
                await self._client.patch(_metadata_of(child), merge_patch(patch), field_owner=self._applier.field_owner)
            await self._applier.apply(child, owner=self._controller(child))
        elif live is None:
            created = Unstructured.from_tree(applied_object(self._tree(child)))
            await self._client.create(created, field_owner=self._applier.field_owner)
        elif live.metadata.deletion_timestamp is not None:
            raise TerminatingError(
                f"{live.kind} {key_of(live)} is being deleted: it will be created again after the deletion"
            )
        else:
            patch = three_way_patch(self._tree(child), _server_tree(live))
            if patch is not None:
                await self._client.patch(_metadata_of(child), merge_patch(patch), field_owner=self._applier.field_owner)

    async def _replace(self, child: Child, live: Child) -> None:
        """Delete an object with an immutable field, and create it again. Raises `TerminatingError` if it stays."""
        await self._client.delete(live, uid=live.metadata.uid, missing_ok=True, propagation="Background")
        remaining = await self._client.get_or_none(metadata_only(gvk_of(child)), key_of(child), uncached=True)
        if remaining is not None and remaining.metadata.uid == live.metadata.uid:
            raise TerminatingError(
                f"{live.kind} {key_of(live)} has an immutable field that changed, and is being deleted: it will be "
                "created again after the deletion"
            )
        await self._send(child, None)

    def _tree(self, child: Child) -> dict[str, Any]:
        controller = self._controller(child)
        if controller is not None:
            child = deep_copy(child)
            set_controller_reference(controller, child)
        return to_tree(child)

    async def _wait_for_turn(self) -> None:
        if self._rate_limiter is not None:
            await asyncio.sleep(self._rate_limiter.reserve(monotonic()))

    # -------------------------------------------------------------- pruning
    async def _all_kinds(self) -> dict[GroupKind, Kind[Any]]:
        """Return the declared kinds and those that the owner records."""
        kinds = dict(self._kinds)
        for group_kind in await self._parent.kinds() if self._parent is not None else ():
            if group_kind not in kinds:
                try:
                    mappings = await self._client.mapper.mappings_for(group_kind)
                except NoMatchError:
                    continue  # the CustomResourceDefinition is gone, and its objects with it
                kinds[group_kind] = unstructured(mappings[0].gvk.api_version, group_kind.kind)
        return kinds

    async def _undesired_objects(self, kinds: dict[GroupKind, Kind[Any]], desired: set[Identity]) -> list[AnyObject]:
        """Return the objects of the set that are not desired and may be deleted."""
        members: list[AnyObject] = []
        for group_kind, kind in kinds.items():
            if group_kind in self._no_delete:
                continue
            namespaced = (await self._client.mapper.mapping_for(kind.gvk)).namespaced
            namespace = self.options.namespace if namespaced else ""
            marked = await self._client.list(kind, namespace=namespace, label_selector={HASH: self.identity.hash})
            members += [obj for obj in marked if identity_of(obj) not in desired and self._is_pruned(obj)]
        return members

    def _is_pruned(self, obj: AnyObject) -> bool:
        """Whether this set wrote the object, and it may be pruned. Copied labels and annotations are not enough."""
        meta = obj.metadata
        if meta.deletion_timestamp is not None or not self.identity.marks(obj):
            return False
        if "false" in (meta.labels.get(PRUNE), meta.annotations.get(PRUNE)):
            return False
        applied = any(m.operation == APPLY and m.manager == self._applier.field_owner for m in meta.managed_fields)
        return applied or APPLIED in meta.annotations

    async def _delete(self, member: AnyObject) -> bool:
        """Delete exactly this version of an object; read it again if it has changed. False if it is kept."""
        current: AnyObject | None = member
        kind = metadata_only(gvk_of(member))
        for _ in range(_DELETE_ATTEMPTS):
            if current is None or not self._is_pruned(current):
                return False
            await self._wait_for_turn()
            meta = current.metadata
            try:
                await self._client.delete(
                    current, uid=meta.uid, resource_version=meta.resource_version, propagation="Background"
                )
            except ConflictError:
                current = await self._client.get_or_none(kind, key_of(member), uncached=True)
            except NotFoundError:
                return False
            else:
                return True
        raise ConflictError(f"{kind.name} {key_of(member)} changed {_DELETE_ATTEMPTS} times while it was being pruned")

    def __repr__(self) -> str:
        return f"<ObjectSet {self.identity}: {', '.join(gk.kind for gk in self._kinds) or 'any kind'}>"


# ------------------------------------------------------------------ owners
async def find_owner(client: Client, obj: KubeObject) -> AnyObject | None:
    """Return the owner of the set that `obj` belongs to; None if the owner no longer exists, or the set has no owner.

    The owner is read from the server. An object with the name of the owner counts, whatever its uid.
    """
    owner = SetOwner.read(obj.metadata.annotations)
    if owner is None:
        return None
    return await client.get_or_none(unstructured(owner.gvk.api_version, owner.gvk.kind), owner.key, uncached=True)


async def purge_orphan(client: Client, obj: AnyObject) -> bool:
    """Delete `obj` if the owner of its set is gone. Returns whether it was deleted.

    An object that belongs to no set, or to one without an owner, stays.
    """
    if SetOwner.read(obj.metadata.annotations) is None or HASH not in obj.metadata.labels:
        return False
    if await find_owner(client, obj) is not None:
        return False
    await client.delete(obj, uid=obj.metadata.uid, missing_ok=True, propagation="Background")
    return True


def _server_tree(live: AnyObject) -> dict[str, Any]:
    """Return the JSON tree of an object as the server returned it."""
    origin = origin_of(live)
    return to_tree(live) if origin is None else origin


def _metadata_of(child: Child) -> PartialObjectMetadata:
    key = key_of(child)
    partial = PartialObjectMetadata(child.api_version, child.kind)
    partial.metadata.namespace, partial.metadata.name = key
    return partial


def _pruned(member: AnyObject) -> Explanation:
    return Explanation(gvk=gvk_of(member), key=key_of(member), reason=ApplyReason.PRUNED)


def _changed(child: Child) -> Explanation:
    return Explanation(gvk=gvk_of(child), key=key_of(child), reason=ApplyReason.CHANGED)


def _is_immutable_error(error: InvalidError) -> bool:
    texts = [cause.message for cause in error.details.causes] or [error.message]
    return all("immutable" in text or "may not change once set" in text for text in texts)
