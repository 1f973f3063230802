"""Discovery results as RESTMappings."""

from __future__ import annotations

from opsdk.apimachinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.rest_mapper import RestMapping, ServedResource
from opsdk.errors import UsageError
from opsdk.rest.discovery import ApiResource, DiscoveredGroups, Discovery


class RestDiscoverySource:
    """A `DiscoverySource` over `Discovery`."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery

    async def fetch(self) -> ServedResource:
        """Run discovery."""
        return served_resources(await self._discovery.fetch())


def served_resources(discovered: DiscoveredGroups) -> ServedResource:
    """Convert discovery results to mappings. Pure."""
    failures: dict[GroupVersion, str] = {}
    for where, error in discovered.failures.items():
        try:
            failures[GroupVersion.parse(where)] = str(error)
        except UsageError:
            failures[GroupVersion(where, "")] = str(error)
    return ServedResource(mappings=[_mapping(r) for r in discovered.resources], failures=failures)


def _mapping(discovered: ApiResource) -> RestMapping:
    return RestMapping(
        gvk=GroupVersionKind(discovered.group, discovered.version, discovered.kind),
        resource=GroupVersionResource(discovered.group, discovered.version, discovered.plural),
        namespaced=discovered.namespaced,
        singular=discovered.singular,
        verbs=frozenset(discovered.verbs),
        short_names=tuple(discovered.short_names),
        categories=tuple(discovered.categories),
        subresources=frozenset(discovered.subresources),
    )
