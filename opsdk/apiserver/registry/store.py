"""The generic store: one storage, one strategy, every verb.

PUT, PATCH and apply call `GenericStore.update`; each passes its function from the stored object to the desired one. A
dry run takes the same path and stops before the write.

Upstream: k8s.io/apiserver/pkg/registry/generic/registry/store.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry import metadata
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.deletion import in_namespace, is_finished, mark
from opsdk.apiserver.registry.rest import (
    DeleteRequestOptions,
    DeleteResult,
    ListQuery,
    ListResult,
    Selection,
    Transform,
    Validate,
    accept,
)
from opsdk.apiserver.registry.storage_codec import DecodingWatch, StorageCodec, recall
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.resources import ResourceInfo, shown_prefix
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.apiserver.storage.large_objects import LARGE_OBJECTS
from opsdk.apiserver.storage.objects import same_but_revision
from opsdk.apiserver.storage.ports import (
    KeyExistsError,
    KeyNotFoundError,
    PreconditionError,
    Remove,
    Storage,
    StoragePage,
    StorageWatch,
)
from opsdk.errors import Cause, NotFoundError
from opsdk.structured_merge.value import JsonObject

_NAME_TRIES = 8
_CHUNK = 500


@dataclass(slots=True)
class _Update:
    """One update request, and the result of its last step: a step runs again after a concurrent write.

    Attributes:
        before: the stored object; None if the update creates it.
        created: the new object, while it may hold what its strategy has allocated.
        removed: the last state of the object, if the update removes it.
    """

    context: Context
    name: str
    transform: Transform
    validate: Validate
    force_create: bool
    uid: str
    before: JsonObject | None = None
    created: JsonObject | None = None
    removed: JsonObject | None = None


@dataclass(slots=True)
class _Deletion:
    """One delete request, and the result of its last step.

    Attributes:
        before: the stored object.
        removes: whether the object is removed now; otherwise it is marked.
    """

    context: Context
    name: str
    options: DeleteRequestOptions
    validate: Validate
    before: JsonObject | None = None
    removes: bool = False


class GenericStore:
    """The store of one resource; `codec` converts if objects are stored in another version."""

    def __init__(
        self,
        storage: Storage,
        info: ResourceInfo,
        strategy: Strategy,
        *,
        prefix: str = "",
        codec: StorageCodec | None = None,
    ) -> None:
        self.storage = storage
        self.info = info
        self.strategy = strategy
        self.codec = codec
        self.prefix = prefix or f"{info.group or 'core'}/{info.resource}/"

    def __repr__(self) -> str:
        return f"<GenericStore of {self.info.resource} under {self.prefix}>"

    # -------------------------------------------------------------- keys
    def key(self, namespace: str, name: str) -> str:
        """Return an object's storage key. Raises a 400 if the name is not a path segment."""
        if "%" in name or "/" in name or name in (".", ".."):
            reason = ";".join(validation.path_segment(name))
            raise api_errors.bad_request(f"Name parameter invalid: {api_errors.quoted(name)}: {reason}")
        return f"{self.prefix}{namespace}/{name}" if self.strategy.namespaced else f"{self.prefix}{name}"

    def key_prefix(self, namespace: str) -> str:
        """Return the key prefix of a namespace, or of all if empty."""
        return f"{self.prefix}{namespace}/" if self.strategy.namespaced and namespace else self.prefix

    # -------------------------------------------------------------- versions
    async def _read(self, obj: JsonObject) -> JsonObject:
        return obj if self.codec is None else (await self.codec.read([obj]))[0]

    async def _recall(self, obj: JsonObject) -> JsonObject:
        return obj if self.codec is None else (await recall(self.codec, [obj]))[0]

    async def _write(self, context: Context, obj: JsonObject) -> JsonObject:
        if context.is_large:
            arranged = await context.compute(_arranged_and_measured, self.strategy, obj)
        else:
            arranged = self.strategy.arrange(obj)
        return arranged if self.codec is None else await self.codec.write(arranged)

    # -------------------------------------------------------------- reading
    async def get(self, context: Context, name: str) -> JsonObject:
        try:
            entry = await self.storage.get(self.key(context.namespace, name))
        except KeyNotFoundError:
            raise api_errors.not_found(self.info, name) from None
        return await self._read(entry)

    async def list(self, context: Context, query: ListQuery) -> ListResult:
        """See `Lister`. Raises `CompactedError` and `FutureRevisionError` of the storage."""
        self.check_fields(query.selection)
        prefix = self.key_prefix(context.namespace)
        if self.codec is not None:
            return await self._list_decoded(self.codec, prefix, query)
        if query.selection.everything:
            start = _first_key(prefix, query)
            page = await self.storage.list(prefix, revision=query.revision, start=start, limit=query.limit)
            return ListResult(
                [v for _, v in page.items], page.revision, _start_after_page(prefix, page), page.remaining
            )
        matching: list[JsonObject] = []
        start, revision = _first_key(prefix, query), query.revision
        while True:
            page = await self.storage.list(prefix, revision=revision, start=start, limit=_CHUNK if query.limit else 0)
            revision = page.revision
            for index, (_, value) in enumerate(page.items):
                if self.matches(query.selection, value):
                    matching.append(value)
                    if len(matching) == query.limit:
                        return ListResult(matching, revision, _start_after_match(prefix, page, index))
            start = page.next_key
            if not start:
                return ListResult(matching, revision)

    async def _list_decoded(self, codec: StorageCodec, prefix: str, query: ListQuery) -> ListResult:
        """List decoded objects, page after page of the storage, until enough of them match."""
        objects: list[JsonObject] = []
        revision, start = query.revision, _first_key(prefix, query)
        while True:
            page = await self.storage.list(prefix, revision=revision, start=start, limit=query.limit)
            revision, start = page.revision, page.next_key
            decoded = await recall(codec, [value for _, value in page.items])
            if query.selection.everything:
                return ListResult(decoded, revision, _start_after_page(prefix, page), page.remaining)
            for index, value in enumerate(decoded):
                if self.matches(query.selection, value):
                    objects.append(value)
                    if len(objects) == query.limit:
                        return ListResult(objects, revision, _start_after_match(prefix, page, index))
            if not start:
                return ListResult(objects, revision)

    def check_fields(self, selection: Selection) -> None:
        """Raise a 400 for a field selector that the kind does not support."""
        strategy = self.strategy
        for requirement in selection.fields.requirements:
            key = requirement.field
            selectable = key == "metadata.name" or key in strategy.selectable
            if key == "metadata.namespace":
                # Kinds with their own selectable fields support metadata.namespace only if they are namespaced.
                selectable = strategy.namespaced or not (strategy.selectable or strategy.custom)
            if not selectable:
                raise strategy.unknown_field(key)

    def matches(self, selection: Selection, obj: JsonObject) -> bool:
        meta = obj.get("metadata") or {}
        if not selection.labels.matches(meta.get("labels") or {}):
            return False

        def field(key: str) -> str:
            if key in ("metadata.name", "metadata.namespace"):
                return str(meta.get(key.removeprefix("metadata."), ""))
            return self.strategy.selectable[key](obj)

        return selection.fields.matches(field)

    async def watch(self, context: Context, name: str, revision: int | None) -> StorageWatch:
        prefix = self.key(context.namespace, name) if name else self.key_prefix(context.namespace)
        inner = await self.storage.watch(prefix, revision)
        return inner if self.codec is None else DecodingWatch(inner, self.codec)

    # -------------------------------------------------------------- creating
    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        """See `Creater`; the store may change `obj`."""
        meta = obj.setdefault("metadata", {})
        generate = not meta.get("name") and meta.get("generateName")
        for attempt in range(_NAME_TRIES if generate else 1):
            candidate = await context.compute(copy_tree, obj) if generate else obj
            if generate:
                candidate["metadata"]["name"] = metadata.generated_name(meta["generateName"], context.rng)
            try:
                stored = await self._store_new(context, candidate, validate)
            except KeyExistsError:
                taken = candidate["metadata"]["name"]
                if generate and attempt < _NAME_TRIES - 1:
                    continue
                if generate:
                    raise api_errors.generated_name_taken(self.info, taken) from None
                error = api_errors.already_exists(self.info, taken)
                existing = await self.storage.get(self.key(context.namespace, taken))
                if existing["metadata"].get("deletionTimestamp"):
                    error.message = f"object is being deleted: {error.message}"
                raise error from None
            if context.dry_run:
                return await self._read(stored)
            await self.strategy.after_create(context, stored)
            return await self._recall(stored)
        raise AssertionError("the loop returns or raises")

    async def _store_new(self, context: Context, obj: JsonObject, validate: Validate) -> JsonObject:
        """Store a new object and return it in its storage version; a dry run does not store it."""
        self._set_system_fields(context, obj)
        try:
            await self._prepare_new(context, obj)
            await validate(obj, None)
            stored = await self._insert(context, obj)
        except BaseException:
            self.strategy.abort_create(obj)
            raise
        if context.dry_run:
            self.strategy.abort_create(obj)
        return stored

    def _set_system_fields(self, context: Context, obj: JsonObject) -> None:
        """Set namespace, UID and creation timestamp of a new object."""
        meta = obj["metadata"]
        metadata.wipe(meta)
        if self.strategy.namespaced:
            meta["namespace"] = context.namespace
        else:
            meta.pop("namespace", None)
        meta["uid"] = context.new_uid()
        meta["creationTimestamp"] = context.timestamp()

    async def _prepare_new(self, context: Context, obj: JsonObject) -> None:
        """Let the strategy complete a new object, and validate it."""
        for warning in metadata.duplicate_owners(obj["metadata"], admitted=True):
            context.warn(warning)
        self.strategy.prepare_for_create(context, obj)
        if self.strategy.has_generation:
            obj["metadata"]["generation"] = 1
        check = context.attempt if self.strategy.custom else context.compute
        await check(self._check_new, context, obj)

    def _check_new(self, context: Context, obj: JsonObject) -> None:
        """Validate a new object, write it in its canonical form, and warn."""
        if self._create_errors(context, obj):
            # Messages print objects in the field order of their types, which costs time only in case of errors.
            arranged = self.strategy.arrange(obj)
            self._refuse(arranged, self._create_errors(context, arranged))
        self.strategy.canonicalize(obj)
        for warning in self.strategy.warnings(context, obj, None):
            context.warn(warning)

    def _create_errors(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Return the errors in a new object."""
        return [
            *metadata.validate(self.strategy, obj["metadata"], context.namespace),
            *self.strategy.validate(context, obj),
        ]

    def _update_errors(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Return the errors in an updated object."""
        return [
            *metadata.validate_update(self.strategy, obj["metadata"], old["metadata"]),
            *self.strategy.validate_update(context, obj, old),
        ]

    def _refuse(self, obj: JsonObject, causes: Sequence[Cause]) -> None:
        if causes:
            name = obj["metadata"].get("name", "")
            raise api_errors.invalid(self.info.kind, self.strategy.error_group(self.info.group), name, causes)

    async def _insert(self, context: Context, obj: JsonObject) -> JsonObject:
        """Store a new object, unless it is a dry run, and return it as stored."""
        meta = obj["metadata"]
        if not context.dry_run:
            # Upstream: etcd3/store.go has this check, and DryRunnableStorage.Create does not reach it.
            version = meta.get("resourceVersion") or "0"
            if version.isdecimal() and version.strip("0"):
                raise api_errors.plain("resourceVersion should not be set on objects to be created")
            meta.pop("resourceVersion", None)
        key = self.key(context.namespace, meta["name"])
        allocates = type(self.strategy).before_create is not Strategy.before_create
        if context.dry_run or allocates or self.codec is not None:  # otherwise the storage checks it
            await self._check_absent(key)
        stored_object = await self._write(context, obj)
        if context.dry_run:
            return stored_object
        self.strategy.before_create(context, obj)
        return await self.storage.create(key, stored_object)

    async def _check_absent(self, key: str) -> None:
        if await self._find(key) is not None:
            raise KeyExistsError(key)

    async def _find(self, key: str) -> JsonObject | None:
        """Return the stored object, or None."""
        try:
            return await self.storage.get(key)
        except KeyNotFoundError:
            return None

    # -------------------------------------------------------------- updating
    async def update(
        self,
        context: Context,
        name: str,
        transform: Transform,
        validate: Validate = accept,
        *,
        force_create: bool = False,
        uid: str = "",
    ) -> tuple[JsonObject, bool]:
        update = _Update(context, name, transform, validate, force_create, uid)
        key = self.key(context.namespace, name)
        try:
            if context.dry_run:
                outcome = await self._desired(update, await self._find(key))
                self._abort_create(update)
                return _object_of(outcome), update.before is None
            stored = await self.storage.guaranteed_update(key, partial(self._step, update))
        except BaseException:
            self._abort_create(update)
            raise
        await self._after_update(update, stored)
        return (await self._recall(stored) if update.removed is None else update.removed), update.before is None

    async def _step(self, update: _Update, current: JsonObject | None) -> JsonObject | Remove:
        """Return what to store instead of `current`, in the storage version."""
        context = update.context
        self._abort_create(update)
        outcome = await self._desired(update, current)
        update.removed = outcome.last if isinstance(outcome, Remove) else None
        if isinstance(outcome, Remove):
            return outcome
        written = await self._write(context, outcome)
        if context.is_large and current is not None and await context.compute(same_but_revision, current, written):
            return current  # the storage would compare them in the event loop
        return written

    async def _desired(self, update: _Update, current: JsonObject | None) -> JsonObject | Remove:
        """Return the valid desired object, or its removal."""
        context, name = update.context, update.name
        update.before = current
        if current is None:
            if not (update.force_create or self.strategy.allow_create_on_update):
                raise api_errors.not_found(self.info, name)
            return await self._desired_new(update)
        if update.uid:
            self._check_uid(name, update.uid, current)
        context.measure(current)
        existing = await self._recall(current)
        desired = await update.transform(existing)
        before = await context.compute(self.strategy.as_read, existing)
        return await self._step_update(context, name, desired, before, update.validate)

    def _abort_create(self, update: _Update) -> None:
        """Release what the strategy has allocated for an object that the update does not create."""
        if update.created is not None:
            self.strategy.abort_create(update.created)
            update.created = None

    async def _after_update(self, update: _Update, stored: JsonObject) -> None:
        if update.before is None:
            await self.strategy.after_create(update.context, stored)
        elif update.removed is not None:
            await self.strategy.after_delete(update.context, stored)
        elif stored is not update.before:
            await self.strategy.after_update(update.context, stored, update.before)

    async def _desired_new(self, update: _Update) -> JsonObject:
        """Return the valid object that the update creates."""
        context, obj = update.context, await update.transform(None)
        meta = obj.setdefault("metadata", {})
        meta.setdefault("name", update.name)
        if meta.get("uid"):
            raise api_errors.conflict(
                self.info,
                update.name,
                f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found",
            )
        meta.pop("resourceVersion", None)
        self._set_system_fields(context, obj)
        update.created = obj
        await self._prepare_new(context, obj)
        await update.validate(obj, None)
        if not context.dry_run:
            self.strategy.before_create(context, obj)
        return obj

    async def _step_update(
        self, context: Context, name: str, obj: JsonObject, current: JsonObject, validate: Validate
    ) -> JsonObject | Remove:
        """Return the updated object after its checks, or `Remove` if it has lost its last finalizer."""
        meta, old_meta = obj.setdefault("metadata", {}), current["metadata"]
        version = meta.get("resourceVersion", "")
        if version in ("", "0"):
            if not self.strategy.allow_unconditional_update:
                text = "Invalid value: 0: must be specified for an update"
                cause = Cause(reason="FieldValueInvalid", message=text, field="metadata.resourceVersion")
                # This error names the resource, unlike most errors, which name the kind.
                raise api_errors.invalid(self.info.resource, self.info.group, name, [cause])
            meta["resourceVersion"] = old_meta["resourceVersion"]
        elif not version.isdigit():
            raise api_errors.plain(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        elif version != old_meta["resourceVersion"]:
            raise api_errors.modified(self.info, name)
        metadata.restore(meta, old_meta)
        self.strategy.prepare_for_update(context, obj, current)
        for warning in metadata.duplicate_owners(obj["metadata"], admitted=True):
            context.warn(warning)
        check = context.attempt if self.strategy.custom else context.compute
        await check(self._check_changed, context, obj, current)
        await validate(obj, current)
        if is_finished(obj, self.strategy):
            return Remove(obj)
        return obj

    def _check_changed(self, context: Context, obj: JsonObject, current: JsonObject) -> None:
        """Validate a changed object, count its generation, write it in its canonical form, and warn."""
        if self.strategy.has_generation and self.strategy.generation_changed(obj, current):
            obj["metadata"]["generation"] = current["metadata"].get("generation", 0) + 1
        if self._update_errors(context, obj, current):
            arranged = self.strategy.arrange(obj)
            self._refuse(arranged, self._update_errors(context, arranged, current))
        self.strategy.canonicalize(obj)
        for warning in self.strategy.warnings(context, obj, current):
            context.warn(warning)

    def _check_uid(self, name: str, uid: str, current: JsonObject) -> None:
        old_meta = current["metadata"]
        resource_prefix = shown_prefix(self.info.group, self.info.resource, custom=self.strategy.custom)
        where = f"/registry/{resource_prefix}{self.key(old_meta.get('namespace', ''), name).removeprefix(self.prefix)}"
        if uid != old_meta.get("uid"):
            reason = (
                f"StorageError: invalid object, Code: 4, Key: {where},"
                f" ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid},"
                f" UID in object meta: {old_meta.get('uid', '')}"
            )
            raise api_errors.conflict(self.info, name, reason)

    def _check_preconditions(self, name: str, options: DeleteRequestOptions, current: JsonObject) -> None:
        """Check the preconditions. Upstream: REST.Delete of namespaces and of CustomResourceDefinitions."""
        preconditions, meta = options.preconditions, current["metadata"]
        for word, expected, actual in (
            ("UID", preconditions.uid, meta.get("uid", "")),
            ("ResourceVersion", preconditions.resource_version, meta.get("resourceVersion", "")),
        ):
            if expected is not None and expected != actual:
                reason = f"Precondition failed: {word} in precondition: {expected}, {word} in object meta: {actual}"
                raise api_errors.conflict(self.info, name, reason)

    # -------------------------------------------------------------- deleting
    async def delete(
        self, context: Context, name: str, options: DeleteRequestOptions, validate: Validate = accept
    ) -> DeleteResult:
        deletion = _Deletion(context, name, options, validate)
        key = self.key(context.namespace, name)
        if context.dry_run:
            outcome = await self._deleted(deletion, await self._find(key))
            return DeleteResult(_object_of(outcome), deletion.removes)
        stored = await self.storage.guaranteed_update(key, partial(self._delete_step, deletion))
        removed = deletion.removes
        if not removed and is_finished(stored, self.strategy):
            # Marked and removed in one request: watches get both, and the response has the revision of the removal.
            stored = await self.storage.delete(key)
            removed = True
        if removed:
            await self.strategy.after_delete(context, stored)
        elif deletion.before is not None and stored is not deletion.before:
            await self.strategy.after_update(context, stored, deletion.before)
        return DeleteResult(stored if removed else await self._read(stored), removed)

    async def _delete_step(self, deletion: _Deletion, current: JsonObject | None) -> JsonObject | Remove:
        """Return what to store instead of `current`, in the storage version."""
        outcome = await self._deleted(deletion, current)
        return outcome if isinstance(outcome, Remove) else await self._write(deletion.context, outcome)

    async def _deleted(self, deletion: _Deletion, current: JsonObject | None) -> JsonObject | Remove:
        """Return the object with its deletion marked, or its removal."""
        context, name = deletion.context, deletion.name
        deletion.before = current
        if current is None:
            raise api_errors.not_found(self.info, name)
        if self.strategy.checks_preconditions:
            self._check_preconditions(name, deletion.options, current)
        try:
            deletion.options.preconditions.check(current)
        except PreconditionError as error:
            raise api_errors.precondition_failed(self.info, name, str(error)) from None
        existing = await self._read(current)
        self.strategy.check_delete(context, existing)
        await deletion.validate(existing, existing)
        context.measure(current)
        outcome = mark(context, self.strategy, await context.compute(copy_tree, existing), deletion.options)
        deletion.removes = isinstance(outcome, Remove)
        return outcome

    async def delete_collection(
        self, context: Context, options: DeleteRequestOptions, query: ListQuery, validate: Validate = accept
    ) -> ListResult:
        """See `CollectionDeleter`; returns the objects as listed.

        Objects that are removed concurrently are skipped.
        """
        listing = await self.list(context, query)
        deleted: list[JsonObject] = []
        for obj in listing.items:
            meta = obj["metadata"]
            inner = in_namespace(context, meta.get("namespace", ""))
            try:
                await self.delete(inner, meta["name"], options, validate)
                deleted.append(obj)
            except NotFoundError:
                continue
        return ListResult(deleted, listing.revision, listing.next_key, listing.remaining)


def _arranged_and_measured(strategy: Strategy, obj: JsonObject) -> JsonObject:
    """Return the object in the order of its fields. The storage need not measure it again in the event loop."""
    arranged = strategy.arrange(obj)
    LARGE_OBJECTS.measure(arranged)
    return arranged


def _object_of(outcome: JsonObject | Remove) -> JsonObject:
    """Return the desired object, or the last state of a removed one."""
    return outcome.last if isinstance(outcome, Remove) else outcome


def _first_key(prefix: str, query: ListQuery) -> str:
    """Return the key where a list starts."""
    return f"{prefix}{query.start}" if query.start else ""


def _start_after_page(prefix: str, page: StoragePage) -> str:
    """Return the start of the next page, right after this page's last key; empty if it is the last page."""
    return f"{page.items[-1][0].removeprefix(prefix)}\0" if page.next_key else ""


def _start_after_match(prefix: str, page: StoragePage, index: int) -> str:
    """Return the start after a full result; empty at the end. The rest may have no match."""
    at_end = index == len(page.items) - 1 and not page.next_key
    return "" if at_end else f"{page.items[index][0].removeprefix(prefix)}\0"
