"""Names of kinds, resources and objects.

Upstream: k8s.io/apimachinery/pkg/runtime/schema/group_version.go (v1.36)
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Self

from opsdk.errors import UsageError

__all__ = ["GroupVersion"]


class GroupVersion(NamedTuple):
    """An API group and version: ``apps/v1``, or ``v1`` for the core group, whose name is empty."""

    group: str
    version: str

    @classmethod
    def parse(cls, api_version: str) -> Self:
        """Parse an ``apiVersion``. Raises `UsageError`.

        >>> GroupVersion.parse("apps/v1")
        GroupVersion(group='apps', version='v1')
        """
        group, slash, version = api_version.rpartition("/")
        if not version or "/" in group or (slash and not group):
            raise UsageError(f"{api_version!r} is not an apiVersion: write 'version' or 'group/version'")
        return cls(group, version)

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def kind(self, kind: str) -> GroupVersionKind:
        """Return the kind of this group and version."""
        return GroupVersionKind(self.group, self.version, kind)


class GroupKind(NamedTuple):
    """A kind without a version. Prints as ``Deployment.apps``."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GroupResource(NamedTuple):
    """A resource without a version. Prints as ``deployments.apps``."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupVersionKind(NamedTuple):
    """A kind with its group and version.

    >>> str(GroupVersionKind("apps", "v1", "Deployment"))
    'apps/v1, Kind=Deployment'
    """

    group: str
    version: str
    kind: str

    @staticmethod
    @lru_cache(maxsize=1024)  # a process handles few kinds, and reads the kind of every object
    def parse(api_version: str, kind: str) -> GroupVersionKind:
        """Return the kind for the ``apiVersion`` and ``kind`` of an object. Raises `UsageError`."""
        return GroupVersionKind(*GroupVersion.parse(api_version), kind)

    @property
    @lru_cache(maxsize=1024)  # noqa: B019 - as above
    def api_version(self) -> str:
        """The ``apiVersion`` of the kind's objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_version(self) -> GroupVersion:
        """The group and version."""
        return GroupVersion(self.group, self.version)

    @property
    @lru_cache(maxsize=1024)  # noqa: B019 - as above
    def group_kind(self) -> GroupKind:
        """The group and kind."""
        return GroupKind(self.group, self.kind)

    @lru_cache(maxsize=1024)  # noqa: B019 - as above; the journal has the kind of every read and write as text
    def __str__(self) -> str:
        return f"{self.api_version}, Kind={self.kind}"


class GroupVersionResource(NamedTuple):
    """A resource with its group and version, as in its URL."""

    group: str
    version: str
    resource: str

    @property
    def group_version(self) -> GroupVersion:
        """The group and version."""
        return GroupVersion(self.group, self.version)

    @property
    def group_resource(self) -> GroupResource:
        """The group and resource."""
        return GroupResource(self.group, self.resource)

    def __str__(self) -> str:
        return f"{self.group_version}, Resource={self.resource}"


class ObjectKey(NamedTuple):
    """Namespace and name of an object (``types.NamespacedName`` in Go). Prints as ``namespace/name`` or ``name``."""

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``namespace/name``, or ``name`` for a cluster-scoped kind. Raises `UsageError`.

        >>> ObjectKey.parse("default/site")
        ObjectKey(namespace='default', name='site')
        """
        namespace, _, name = text.rpartition("/")
        if not name or "/" in namespace:
            raise UsageError(
                f"{text!r} is not an object key: write 'namespace/name', or 'name' for cluster-scoped kinds"
            )
        return cls(namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
