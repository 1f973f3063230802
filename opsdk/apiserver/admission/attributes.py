"""The attributes of one admission request, as every plugin sees them.

Upstream: k8s.io/apiserver/pkg/admission/attributes.go (v1.36).
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.resources import InstalledResource
from opsdk.structured_merge.value import JsonObject


class RequestContext(Protocol):
    """The parts of an HTTP request that admission reads."""

    @property
    def user(self) -> User:
        """The requesting user, or the impersonated one."""

    def warn(self, text: str) -> None:
        """Add a ``Warning`` header to the response; a repeated text is sent once."""

    def annotate(self, key: str, value: str) -> None:
        """Add an audit annotation; the first value of a key is kept."""

    def context(self, *, dry_run: bool = False) -> Context:
        """Return the context of a call into a registry."""


class Attributes(msgspec.Struct, kw_only=True):
    """The attributes of one request. Objects are of the served version and are never changed in place.

    Attributes:
        operation: ``CREATE``, ``UPDATE``, ``DELETE``, ``CONNECT``.
        name: empty if the server still has to generate it.
        obj: the new object (None for DELETE); plugins replace it while mutating. For CONNECT, the options.
        old: the stored object of UPDATE and DELETE.
        options: the options object of the request, ``CreateOptions`` and so on; empty for CONNECT.
        connected: the kind of the options of CONNECT.
        is_reinvoke: whether this is the second mutating round.
        reinvoke: set by a plugin in the first round to request a second one.
        notes: state of plugins between the rounds, by plugin name.
    """

    call: RequestContext
    served: InstalledResource
    operation: str
    namespace: str
    name: str
    obj: JsonObject | None = None
    old: JsonObject | None = None
    options: JsonObject = msgspec.field(default_factory=dict)
    dry_run: bool = False
    connected: str = ""
    is_reinvoke: bool = False
    reinvoke: bool = False
    notes: JsonObject = msgspec.field(default_factory=dict)

    @property
    def user(self) -> User:
        """The authenticated user."""
        return self.call.user

    @property
    def kind(self) -> GroupVersionKind:
        """The kind of the body; for subresources such as scale it differs from the kind of the resource."""
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
        """The object's name for error messages; its generateName before it has a name."""
        if self.name:
            return self.name
        meta: JsonObject = (self.obj or {}).get("metadata") or {}
        return str(meta.get("name") or meta.get("generateName") or "Unknown")

    def warn(self, text: str) -> None:
        """Add a ``Warning`` header to the response."""
        self.call.warn(text)
