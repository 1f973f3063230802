"""Names of kinds and resources."""

from __future__ import annotations

from typing import NamedTuple, Self

from opsdk.errors import UsageError


class GroupVersion(NamedTuple):
    """An API group and version, ``apps/v1`` or ``v1`` for the core group (whose name is empty)."""

    group: str
    version: str

    @classmethod
    def parse(cls, api_version: str) -> Self:
        """Read an ``apiVersion``.

        >>> GroupVersion.parse("apps/v1")
        GroupVersion(group='apps', version='v1')
        """
        group, slash, version = api_version.rpartition("/")
        if not version or "/" in group or (slash and not group):
            raise UsageError(f"{api_version!r} is no apiVersion: write 'version' or 'group/version'")
        return cls(group, version)

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def kind(self, kind: str) -> GroupVersionKind:
        """A kind of this group and version."""
        return GroupVersionKind(self.group, self.version, kind)


class GroupKind(NamedTuple):
    """A kind, whatever its version; prints as ``Deployment.apps``."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GroupResource(NamedTuple):
    """A resource, whatever its version; prints as ``deployments.apps``."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupVersionKind(NamedTuple):
    """The full name of a kind.

    >>> str(GroupVersionKind("apps", "v1", "Deployment"))
    'apps/v1, Kind=Deployment'
    """

    group: str
    version: str
    kind: str

    @classmethod
    def parse(cls, api_version: str, kind: str) -> Self:
        """From the two fields every object has."""
        group, version = GroupVersion.parse(api_version)
        return cls(group, version, kind)

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_version(self) -> GroupVersion:
        """Without the kind."""
        return GroupVersion(self.group, self.version)

    @property
    def group_kind(self) -> GroupKind:
        """Without the version."""
        return GroupKind(self.group, self.kind)

    def __str__(self) -> str:
        return f"{self.api_version}, Kind={self.kind}"


class GroupVersionResource(NamedTuple):
    """The full name of a resource, as in its URL."""

    group: str
    version: str
    resource: str

    @property
    def group_version(self) -> GroupVersion:
        """Without the resource."""
        return GroupVersion(self.group, self.version)

    @property
    def group_resource(self) -> GroupResource:
        """Without the version."""
        return GroupResource(self.group, self.resource)

    def __str__(self) -> str:
        return f"{self.group_version}, Resource={self.resource}"


class ObjectKey(NamedTuple):
    """What names one object among its kind; prints as ``namespace/name`` or ``name``.

    Called ``NamespacedName`` in Go.
    """

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``namespace/name`` or, for cluster-scoped kinds, ``name``.

        >>> ObjectKey.parse("default/site")
        ObjectKey(namespace='default', name='site')
        """
        namespace, _, name = text.rpartition("/")
        if not name or "/" in namespace:
            raise UsageError(f"{text!r} is no object key: write 'namespace/name', or 'name' for cluster-scoped kinds")
        return cls(namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
