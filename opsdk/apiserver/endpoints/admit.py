"""Admission between decoding and storing: the port, the ordered chain, and how the verbs call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from opsdk.api.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apiserver import problems
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.endpoints.access import check_create
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.fieldmanager.managed import decode_entries, entries_of, keep_times, with_entries
from opsdk.apiserver.resources import Installed
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import DecodeError

PLACES = (
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "PodTopologyLabels",
    "NodeDeclaredFeatureValidator",
    "PodResizeValidator",
    "",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
)
"""The order of plugins in both rounds; those with other names stand where the empty one is."""


@dataclass(slots=True, kw_only=True)
class Review:
    """One request under review. Objects are of the served version, and nobody changes them in place.

    Attributes:
        operation: ``CREATE``, ``UPDATE``, ``DELETE``, ``CONNECT``.
        name: empty where the server is still to make one up.
        obj: the new object (None for DELETE); plugins replace it while mutating. For CONNECT, the options.
        old: the stored object of UPDATE and DELETE.
        options: the options object of the request, ``CreateOptions`` and so on; empty for CONNECT.
        connected: the kind of the options of CONNECT.
        again: whether this is the second mutating round.
        reinvoke: set by a plugin during the first round to ask for a second one.
        notes: what plugins remember from one round to the next, by their names.
    """

    call: Call
    served: Installed
    operation: str
    namespace: str
    name: str
    obj: Tree | None = None
    old: Tree | None = None
    options: Tree = field(default_factory=dict)
    dry_run: bool = False
    connected: str = ""
    again: bool = False
    reinvoke: bool = False
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def user(self) -> User:
        """Who asks."""
        return self.call.user

    @property
    def kind(self) -> GroupVersionKind:
        """The kind of the body, for scale and the like not that of the resource."""
        info = self.served.info
        if self.connected:
            return GroupVersionKind(info.group, info.version, self.connected)
        group, _, version = info.kind_api_version.rpartition("/")
        return GroupVersionKind(group, version, info.kind)

    @property
    def resource(self) -> GroupVersionResource:
        """The resource of the path."""
        info = self.served.info
        return GroupVersionResource(info.group, info.version, info.resource)

    @property
    def subresource(self) -> str:
        """Empty for the resource itself."""
        return self.served.info.subresource

    @property
    def shown_name(self) -> str:
        """What refusals call the object: before it has a name, by what its name will be made of."""
        if self.name:
            return self.name
        meta: Tree = (self.obj or {}).get("metadata") or {}
        return str(meta.get("name") or meta.get("generateName") or "Unknown")

    def warn(self, text: str) -> None:
        """Tell the client something."""
        self.call.warn(text)


class Admission(Protocol):
    """Rules across kinds."""

    async def mutate(self, review: Review) -> None:
        """Replace ``review.obj``, or raise to refuse."""
        ...

    async def validate(self, review: Review) -> None:
        """Raise to refuse."""
        ...


class AdmissionChain:
    """Plugins in the order of `PLACES`; a second mutating round where one asks for it."""

    def __init__(self, plugins: Mapping[str, Admission] | None = None) -> None:
        self._named: dict[str, Admission] = {}
        self._ordered: tuple[Admission, ...] = ()
        for name, plugin in (plugins or {}).items():
            self.add(name, plugin)

    def __repr__(self) -> str:
        return f"<AdmissionChain of {', '.join(self._named) or 'nothing'}>"

    @property
    def plugins(self) -> Mapping[str, Admission]:
        """By name, in order."""
        return MappingProxyType(self._named)

    def add(self, name: str, plugin: Admission) -> None:
        """Put a plugin into its place, instead of the one that has its name."""
        self._named[name] = plugin
        self._sort()

    def remove(self, name: str) -> None:
        """Take a plugin out; fine if there is none."""
        self._named.pop(name, None)
        self._sort()

    def _sort(self) -> None:
        self._named = dict(sorted(self._named.items(), key=lambda item: _place(item[0])))
        self._ordered = tuple(self._named.values())

    async def mutate(self, review: Review) -> None:
        """Each in turn."""
        for plugin in self._ordered:
            await plugin.mutate(review)
        if review.reinvoke and not review.again:
            review.again = True
            for plugin in self._ordered:
                await plugin.mutate(review)

    async def validate(self, review: Review) -> None:
        """Each in turn."""
        for plugin in self._ordered:
            await plugin.validate(review)


def _place(name: str) -> int:
    return PLACES.index(name if name in PLACES else "")


class Gate:
    """Admission for one request; makes the reviews.

    Args:
        options: the options object of the request.
    """

    def __init__(self, admission: Admission, call: Call, served: Installed, options: Tree, *, dry_run: bool) -> None:
        self._admission = admission
        self._call = call
        self._served = served
        self._options = options
        self._dry_run = dry_run

    def __repr__(self) -> str:
        return f"<Gate before {self._served.info.path}>"

    async def mutate(self, obj: Tree, old: Tree | None) -> Tree:
        """The object as admission wants it; both are of the served version, and the outcome is the caller's."""
        review = self._review("CREATE" if old is None else "UPDATE", obj, old)
        await self._admission.mutate(review)
        if review.obj is None or review.obj is obj:
            return obj
        self._check_namespace(review.obj)
        changed = self._keep_owners(obj, review.obj)
        # Admission may have undone what was asked for: then nothing is written, not even a time.
        return changed if old is None else keep_times(old, changed)

    async def validate(self, obj: Tree, old: Tree | None) -> None:
        """What a store calls before it creates or updates (see `Validate`)."""
        if old is None and self._call.info.verb != "create":
            await check_create(self._call)
        model = self._served.model
        before = None if old is None else model.from_storage(old)
        operation = "CREATE" if old is None else "UPDATE"
        await self._admission.validate(self._review(operation, model.from_storage(obj), before))

    async def remove(self, obj: Tree, _: Tree | None) -> None:
        """What a store calls before it deletes: both rounds see the object as it is."""
        old = self._served.model.from_storage(obj)
        await self._admission.mutate(self._review("DELETE", None, old))
        await self._admission.validate(self._review("DELETE", None, old))

    async def connect(self, kind: str, options: Tree) -> None:
        """Before a subresource takes the connection; `options` is an object of `kind`."""
        for judge in (self._admission.mutate, self._admission.validate):
            review = self._review("CONNECT", options, None)
            review.connected = kind
            await judge(review)

    def _review(self, operation: str, obj: Tree | None, old: Tree | None) -> Review:
        call, body = self._call, obj if obj is not None else old
        meta: Tree = (body or {}).get("metadata") or {}
        return Review(
            call=call,
            served=self._served,
            operation=operation,
            namespace=self._namespace(meta),
            name=call.info.name or ("" if operation == "DELETE" else meta.get("name", "")),
            obj=obj,
            old=old,
            options=_for_operation(self._options, operation),
            dry_run=self._dry_run,
        )

    def _namespace(self, meta: Tree) -> str:
        """That of the path; a namespace is in itself."""
        info = self._served.info
        if info.resource == "namespaces" and not info.group:
            return self._call.info.name or str(meta.get("name", ""))
        return self._call.info.namespace

    def _check_namespace(self, obj: Tree) -> None:
        """Admission may not move an object."""
        info = self._served.info
        found = (obj.get("metadata") or {}).get("namespace") or self._call.info.namespace
        if info.namespaced and not info.subresource and found != self._call.info.namespace:
            raise problems.foreign_namespace()

    def _keep_owners(self, before: Tree, after: Tree) -> Tree:
        """`after`, with the owners of `before` where its own cannot be read."""
        try:
            decode_entries(entries_of(after))
        except DecodeError as error:
            self._call.warn(_BAD_OWNERS.format(error))
            return with_entries(after, decode_entries(entries_of(before)))
        return after


_BAD_OWNERS = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating"
    " admission controller; please fix your requests: {}"
)


def _for_operation(options: Tree, operation: str) -> Tree:
    """Where a PUT turns out to create, or a patch to update, the options become those of that operation."""
    kind = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}.get(operation)
    if kind is None or options.get("kind") == kind:
        return options
    return {**{key: value for key, value in options.items() if key != "force"}, "kind": kind}
