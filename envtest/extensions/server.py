"""Serve custom resources. Each request looks up the CRD, so a change takes effect immediately.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
from msgspec import structs

from envtest.codec.decoder import Decoders
from envtest.extensions.conversion import CustomResourceConverter, OwnedVersions, VersionCodec
from envtest.extensions.custom_resource import CustomModel, CustomStrategy
from envtest.extensions.custom_resource_definition import CLEANUP
from envtest.extensions.names import condition, is_true, naming_status, put_condition
from envtest.extensions.printer_columns import SCALE, ColumnPrinter
from envtest.extensions.scale_paths import ScalePaths
from envtest.groups.common.model import TypedModel
from envtest.groups.common.scale import ScaleStore
from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.chain import AdmissionInterface
from opsdk.apiserver.endpoints import dispatch
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.discovery import ServedGroup, ServedVersion
from opsdk.apiserver.fieldmanager.field_manager import FieldManager
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.rest import DeleteRequestOptions
from opsdk.apiserver.registry.subresources import StatusStore
from opsdk.apiserver.resources import InstalledResource, ResourceInfo, ResourceModel, group_version
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.apiserver.server import Delegate
from opsdk.apiserver.storage.ports import KeyNotFoundError, Remove
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.apiserver.webhook_client.client import WebhookClient
from opsdk.errors import NotFoundError
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.schema import Schema
from opsdk.structured_merge.value import JsonObject

_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_LAST_VERBS = ("delete", "deletecollection", "get", "list", "watch")
_SUB_VERBS = ("get", "patch", "update")


_Schemas = Mapping[str, StructuralSchema]
"""The schemas of a definition by version."""


def _schemas(definition: JsonObject) -> _Schemas:
    versions = definition["spec"]["versions"]
    return {version["name"]: StructuralSchema(version["schema"]["openAPIV3Schema"]) for version in versions}


class _ServedDefinition(msgspec.Struct):
    """A definition with its compiled versions."""

    definition: JsonObject
    served: dict[tuple[str, str], InstalledResource]
    order: list[str]
    converter: CustomResourceConverter

    @property
    def group(self) -> str:
        return str(self.definition["spec"]["group"])

    @property
    def terminating(self) -> bool:
        return is_true(self.definition, "Terminating")


class ExtensionServer:
    """Serves custom resources; one delegate of the delegation chain.

    Attributes:
        on_group_versions_changed: called when the set of defined group versions may have changed.
    """

    def __init__(
        self,
        definitions: LocalStore,
        model: ResourceModel,
        delegate: Delegate,
        admission: AdmissionInterface,
        decoders: Decoders,
        *,
        client: WebhookClient,
    ) -> None:
        self._client = client
        self._definitions = definitions
        self._model = model
        self._delegate = delegate
        self._admission = admission
        self._decoders = decoders
        self._served_definitions: dict[str, _ServedDefinition] = {}
        self.on_group_versions_changed: Callable[[], None] = _do_nothing

    def __repr__(self) -> str:
        return f"<ExtensionServer of {', '.join(sorted(self._served_definitions)) or 'nothing'}>"

    def load(self) -> None:
        """Serve the stored CRDs."""
        for obj in self._definitions.list_now():
            self._compile(obj)

    def reload(self) -> None:
        """Serve exactly the stored CRDs, after the storage was restored."""
        stored = {obj["metadata"]["name"] for obj in self._definitions.list_now()}
        for name in self._served_definitions.keys() - stored:
            del self._served_definitions[name]
        self.load()

    def group_versions(self) -> Iterator[tuple[str, str]]:
        """Yield the group and version pairs that CRDs serve."""
        for defined in self._served_definitions.values():
            for version in defined.order:
                yield defined.group, version

    # -------------------------------------------------------------- installing and removing definitions
    async def on_changed(self, context: Context, name: str) -> None:
        """Process a definition that was created, updated or deleted."""
        obj = self._find(name)
        if obj is None:
            await self._remove(context, name)
            return
        if obj["metadata"].get("deletionTimestamp"):
            self._compile(obj)
            await self._delete_instances(context, name)
            return
        others = [
            d.definition
            for d in self._served_definitions.values()
            if d.group == obj["spec"]["group"] and d.definition["metadata"]["name"] != obj["metadata"]["name"]
        ]
        status = naming_status(obj, others, context.timestamp())
        if status != obj.get("status"):
            await self._write_status(context, obj, status)
        await self._serve(context, name, obj)
        self.on_group_versions_changed()

    def _find(self, name: str) -> JsonObject | None:
        try:
            return self._definitions.storage.get_now(self._definitions.key("", name))
        except KeyNotFoundError:
            return None

    async def _write_status(self, context: Context, obj: JsonObject, status: JsonObject) -> None:
        async def put(current: JsonObject | None) -> JsonObject:
            base = obj if current is None else current
            return await self._stamped(context, base, {**base, "status": status})

        await self._definitions.storage.guaranteed_update(self._definitions.key("", obj["metadata"]["name"]), put)

    async def _stamped(self, context: Context, before: JsonObject, after: JsonObject) -> JsonObject:
        """Return `after` with managedFields of a write by the server."""
        manager = FieldManager(shape=self._model.shape, api_version="apiextensions.k8s.io/v1", subresource="status")
        now = context.timestamp()

        def update() -> JsonObject:
            return manager.update(before, copy_tree(after), manager="kube-apiserver", now=now)

        return await context.compute(update)

    async def _delete_instances(self, context: Context, name: str) -> None:
        """Delete every object of a terminating definition, then remove its finalizer."""
        defined = self._served_definitions.get(name)
        if defined is None or CLEANUP not in (defined.definition["metadata"].get("finalizers") or ()):
            return
        conditions = (defined.definition.get("status") or {}).get("conditions") or ()
        if (
            next((str(c.get("reason", "")) for c in conditions if c["type"] == "Terminating"), "")
            != "InstanceDeletionInProgress"
        ):
            text = "CustomResource deletion is in progress"
            new = condition("Terminating", "True", "InstanceDeletionInProgress", text, context.timestamp())
            await self._write_status(context, defined.definition, _with_condition(defined.definition, new))
            definition = self._find(defined.definition["metadata"]["name"])
            if definition is not None:
                self._compile(definition)
        store = self._any_store(defined)
        for obj in store.list_now():
            meta = obj["metadata"]
            if meta.get("deletionTimestamp"):
                continue
            try:
                await store.delete(
                    structs.replace(context, namespace=meta.get("namespace", "")), meta["name"], DeleteRequestOptions()
                )
            except NotFoundError:
                continue
        if not store.list_now():
            await self._remove_finalizer(context, name)

    async def _remove_finalizer(self, context: Context, name: str) -> None:
        """Remove the cleanup finalizer of a definition whose instances are deleted."""

        async def drop(current: JsonObject | None) -> JsonObject | Remove:
            if current is None:
                raise NotFoundError(name)
            new = condition(
                "Terminating", "False", "InstanceDeletionCompleted", "removed all instances", context.timestamp()
            )
            finalizers = [f for f in current["metadata"].get("finalizers") or () if f != CLEANUP]
            meta = {key: value for key, value in current["metadata"].items() if key != "finalizers"}
            meta |= {"finalizers": finalizers} if finalizers else {}
            after = {**current, "metadata": meta, "status": _with_condition(current, new)}
            desired = await self._stamped(context, current, after)
            return desired if finalizers else Remove(desired)

        try:
            await self._definitions.storage.guaranteed_update(self._definitions.key("", name), drop)
        except NotFoundError:
            return
        definition = self._find(name)
        if definition is not None:
            self._compile(definition)
        else:
            await self._remove(context, name)

    async def _remove(self, context: Context, name: str) -> None:
        """Stop serving a definition; watches of its objects end."""
        defined = self._served_definitions.pop(name, None)
        if defined is not None:
            self._any_store(defined).storage.drop_history(self._any_store(defined).prefix)
        self.on_group_versions_changed()
        # The names are free again: another definition may have been waiting for them.
        for defined in list(self._served_definitions.values()):
            if not is_true(defined.definition, "NamesAccepted"):
                await self.on_changed(context, defined.definition["metadata"]["name"])

    @staticmethod
    def _any_store(defined: _ServedDefinition) -> LocalStore:
        store = next(s.storage for (_, sub), s in defined.served.items() if not sub)
        assert isinstance(store, LocalStore)
        # Without conversion: a failing webhook must not block operations on all versions.
        return LocalStore(store.storage, store.info, store.strategy)

    # -------------------------------------------------------------- compiling
    async def _serve(self, context: Context, name: str, obj: JsonObject) -> None:
        """Serve a definition. The schemas of a large one are built outside the event loop."""
        schemas: _Schemas = {}
        definition = self._find(name) or obj
        while context.is_large:
            schemas = await context.compute(_schemas, definition)
            latest = self._find(name) or obj
            if latest is definition:
                break
            definition = latest  # it has changed in the meantime
        self._compile(definition, schemas)

    def _compile(self, obj: JsonObject, schemas: _Schemas | None = None) -> None:
        """Serve a definition as it is now. Watches cannot resume over a change of it."""
        name = obj["metadata"]["name"]
        before = self._served_definitions.get(name)
        same = before is not None and (
            before.definition["spec"] == obj["spec"] and before.definition["metadata"]["uid"] == obj["metadata"]["uid"]
        )
        if before is not None and same:
            before.definition = obj
            return
        versions = obj["spec"]["versions"]
        served = dict(self._versions(obj, schemas or {}))
        order = sorted((v["name"] for v in versions if v.get("served")), key=version_priority)
        self._served_definitions[name] = _ServedDefinition(
            obj, served, order, CustomResourceConverter(obj, self._client)
        )
        # Watches from before the change of the schema cannot be resumed.
        store = self._any_store(self._served_definitions[name])
        store.storage.drop_history(store.prefix)

    def _versions(self, obj: JsonObject, built: _Schemas) -> Iterator[tuple[tuple[str, str], InstalledResource]]:
        spec = obj["spec"]
        models = {v["name"]: CustomModel(obj, v, self._decoders, built.get(v["name"])) for v in spec["versions"]}
        if len(models) == 1:
            yield from self._version(obj, spec["versions"][0], next(iter(models.values())), None, None)
            return
        converter = CustomResourceConverter(obj, self._client)
        storage_version = next(f"{spec['group']}/{v['name']}" for v in spec["versions"] if v.get("storage"))
        schemas = {model.api_version: model.schema for model in models.values()}
        owned = OwnedVersions(converter, _Shapes(models.values()))
        for version in spec["versions"]:
            model = models[version["name"]]
            codec = VersionCodec(converter, model.api_version, storage_version, schemas)
            yield from self._version(obj, version, model, codec, owned)

    def _version(
        self,
        obj: JsonObject,
        version: JsonObject,
        model: CustomModel,
        codec: VersionCodec | None,
        owned: OwnedVersions | None,
    ) -> Iterator[tuple[tuple[str, str], InstalledResource]]:
        """Yield the resources of one version: the main one, status and scale."""
        spec, names = obj["spec"], obj["spec"]["names"]
        info = ResourceInfo(
            group=spec["group"],
            version=version["name"],
            resource=names["plural"],
            kind=names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            singular=names.get("singular", ""),
            list_kind=names.get("listKind", ""),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
        )
        name = obj["metadata"]["name"]

        async def gone(context: Context) -> None:
            definition = self._served_definitions.get(name)
            if definition is not None and definition.terminating:
                await self._delete_instances(context, name)

        def refuse(created: str) -> None:
            definition = self._served_definitions.get(name)
            if definition is not None and definition.terminating:
                text = "create not allowed while custom resource definition is terminating"
                raise api_errors.forbidden(info, created, text)

        strategy = CustomStrategy(obj, version, model, gone=gone, refuse=refuse)
        store = LocalStore(self._definitions.storage, info, strategy, codec=codec)
        stored = next(v["name"] for v in spec["versions"] if v.get("storage"))
        yield (
            (version["name"], ""),
            InstalledResource(info, store, model, _VERBS, storage_version=stored, versions=owned),
        )
        subresources = version.get("subresources") or {}
        if subresources.get("status") is not None:
            status = replace(info, subresource="status")
            resource = InstalledResource(status, StatusStore(store), model, _SUB_VERBS, versions=owned)
            yield (version["name"], "status"), resource
        if subresources.get("scale"):
            paths = ScalePaths(subresources["scale"])
            scale = replace(info, subresource="scale", kind="Scale", kind_group="autoscaling", kind_version="v1")
            where = _replica_paths(spec)
            storage = ScaleStore(store, show=paths.show, to_write=paths.to_write, put=paths.put, replicas=where)
            yield (version["name"], "scale"), InstalledResource(scale, storage, self._scale_model, _SUB_VERBS)

    @property
    def _scale_model(self) -> ResourceModel:
        if self._scale is None:
            raise LookupError("no model for scales")
        return self._scale

    _scale: ResourceModel | None = None

    def use_scale(self, model: TypedModel) -> None:
        """Set the model of ``autoscaling/v1 Scale``."""
        self._scale = model.printed_by(ColumnPrinter(SCALE))

    # -------------------------------------------------------------- serving
    async def handle(self, call: Call) -> HttpResponse:
        info = call.info
        defined = self._served_definitions.get(f"{info.resource}.{info.group}") if info.is_resource else None
        if defined is None or info.version not in defined.order or not is_true(defined.definition, "Established"):
            return await self._delegate.handle(call)
        spec = defined.definition["spec"]
        if bool(info.namespace) and spec["scope"] != "Namespaced":
            return await self._delegate.handle(call)
        if spec["scope"] == "Namespaced" and not info.namespace and info.verb not in ("list", "watch"):
            return await self._delegate.handle(call)
        served = defined.served.get((info.version, info.subresource))
        if served is None:
            raise api_errors.not_found(defined.served[info.version, ""].info, info.name)
        version = next(v for v in defined.definition["spec"]["versions"] if v["name"] == call.info.version)
        if version.get("deprecated"):
            call.warn(version.get("deprecationWarning") or _deprecation(defined.definition["spec"], version["name"]))
        return await dispatch.dispatch(call, served, self._admission)

    def versions_of(self, info: ResourceInfo) -> Sequence[InstalledResource]:
        """Return a resource or subresource in every served version, in the CRD's order."""
        defined = self._served_definitions.get(f"{info.resource}.{info.group}")
        if defined is None:
            return ()
        return [s for (v, sub), s in defined.served.items() if sub == info.subresource and v in defined.order]

    async def convert(self, obj: JsonObject, source: ResourceInfo, target: ResourceInfo) -> JsonObject:
        """Convert an object to another version of its CRD."""
        defined = self._served_definitions[f"{source.resource}.{source.group}"]
        [converted] = await defined.converter.convert([obj], target.kind_api_version)
        model = defined.served[target.version, ""].model
        assert isinstance(model, CustomModel)
        pruned: JsonObject = model.schema.prune(converted)[0]
        return pruned

    def groups(self) -> Sequence[ServedGroup]:
        groups: dict[str, dict[str, list[InstalledResource]]] = {}
        for defined in self._served_definitions.values():
            if not is_true(defined.definition, "Established"):
                continue
            for version in defined.order:
                # While a CRD terminates, discovery lists only the verbs that read and delete.
                resources = [
                    (replace(s, verbs=_LAST_VERBS) if defined.terminating and not s.info.subresource else s)
                    for (v, _), s in defined.served.items()
                    if v == version
                ]
                groups.setdefault(defined.group, {}).setdefault(version, []).extend(resources)
        served = [
            ServedGroup(group, [ServedVersion(v, versions[v]) for v in sorted(versions, key=version_priority)])
            for group, versions in sorted(groups.items())
        ]
        return [*served, *self._delegate.groups()]


def _do_nothing() -> None:
    """Do nothing: the default callback."""


def _deprecation(spec: JsonObject, version: str) -> str:
    """Return the deprecation warning, with the version to use if there is a newer one."""
    group, kind = spec["group"], spec["names"]["kind"]
    better = [
        v["name"]
        for v in spec["versions"]
        if v.get("served") and not v.get("deprecated") and version_priority(v["name"]) < version_priority(version)
    ]
    instead = f"; use {group}/{min(better, key=version_priority)} {kind}" if better else ""
    return f"{group}/{version} {kind} is deprecated{instead}"


class _Shapes(Mapping[str, Schema]):
    """The typed shapes of versions by apiVersion, created at their first use."""

    def __init__(self, models: Iterable[CustomModel]) -> None:
        self._models = {model.api_version: model for model in models}

    def __getitem__(self, version: str) -> Schema:
        return self._models[version].shape

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)


def _with_condition(definition: JsonObject, new: JsonObject) -> JsonObject:
    status = definition.get("status") or {}
    return {**status, "conditions": put_condition(list(status.get("conditions") or []), new)}


_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sort key of versions: stable before beta before alpha, then higher numbers, then names.

    >>> sorted(["v1", "v1beta1", "v2", "v1alpha3", "foo"], key=version_priority)
    ['v2', 'v1', 'v1beta1', 'v1alpha3', 'foo']
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    level = {"": 0, "beta": 1, "alpha": 2}[match[2] or ""]
    return (level, -int(match[1]), -int(match[3] or 0), version)


def _replica_paths(spec: JsonObject) -> dict[str, tuple[str, ...]]:
    """Return the path of the replicas for each version with a scale subresource."""
    scales = {v["name"]: (v.get("subresources") or {}).get("scale") for v in spec["versions"]}
    return {group_version(spec["group"], name): ScalePaths(scale).replicas for name, scale in scales.items() if scale}
