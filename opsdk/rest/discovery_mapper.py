"""Discovery for a RESTMapper."""

from __future__ import annotations

from opsdk.apimachinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.rest_mapper import RestMapping, ServedResource
from opsdk.errors import UsageError
from opsdk.rest.discovery import ApiResource, DiscoveredGroups, Discovery


class RestDiscoverySource:
    """A mapper's source over `Discovery`."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery

    async def fetch(self) -> ServedResource:
        """Ask the server for everything."""
        return served_resources(await self._discovery.fetch())


def served_resources(found: DiscoveredGroups) -> ServedResource:
    """What was discovered, as mappings. Pure."""
    failures: dict[GroupVersion, str] = {}
    for where, error in found.failures.items():
        try:
            failures[GroupVersion.parse(where)] = str(error)
        except UsageError:
            failures[GroupVersion(where, "")] = str(error)
    return ServedResource(mappings=[_mapping(r) for r in found.resources], failures=failures)


def _mapping(found: ApiResource) -> RestMapping:
    return RestMapping(
        gvk=GroupVersionKind(found.group, found.version, found.kind),
        resource=GroupVersionResource(found.group, found.version, found.plural),
        namespaced=found.namespaced,
        singular=found.singular,
        verbs=frozenset(found.verbs),
        short_names=tuple(found.short_names),
        categories=tuple(found.categories),
        subresources=frozenset(found.subresources),
    )
