"""The server of the built-in kinds, as admission plugins, controllers and the rest of the control plane use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from opsdk.apiserver.admission.chain import Chain
from opsdk.apiserver.auth.authorization import Authorizer
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.resources import InstalledResource
from opsdk.apiserver.server import ResourceServer
from opsdk.apiserver.storage.ports import LocalStorage


class CoreServer(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the server of the built-in kinds.

    Attributes:
        storage: the storage of all objects.
        stores: the registries by ``group/resource``.
        resources: serves the resources; delegates requests for custom resources.
        admission: the chain of admission plugins.
        authorizer: decides what users may do.
        git_version: the version of Kubernetes that the server shows, such as ``v1.36.2``.
    """

    storage: LocalStorage
    stores: Mapping[str, LocalStore]
    resources: ResourceServer
    admission: Chain
    authorizer: Authorizer
    git_version: str

    def served(self, group: str, version: str) -> Iterator[InstalledResource]:
        """Yield the resources and subresources of a version, also custom ones."""
        for served_group in self.resources.groups():
            if served_group.group == group:
                for each in served_group.versions:
                    if each.version == version:
                        yield from each.resources
