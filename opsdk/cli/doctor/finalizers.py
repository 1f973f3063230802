"""Removes finalizers by their names, without the operator that handled them."""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apimachinery.kinds import Kind, metadata_only
from opsdk.apimachinery.object import AnyObject
from opsdk.cli.doctor.examine import Removal
from opsdk.cluster.cluster import Cluster
from opsdk.lifecycle.orphans import DrainResult, check_names, drain_all
from opsdk.rest.config import RestConfig


async def remove_finalizers(
    config: RestConfig, names: Sequence[str], *, kinds: Sequence[str], namespace: str, dry_run: bool
) -> DrainResult:
    """Remove finalizers from the objects of a cluster.

    Args:
        config: of the cluster.
        names: finalizers, or prefixes that end with a slash.
        kinds: as ``kubectl get`` takes them, such as ``sites.example.com``; none for all.
        namespace: of the objects; empty for all.
        dry_run: write nothing.

    Raises:
        NoMatchError: the server does not serve a kind.
        UsageError: a name is not a finalizer.
        OpsdkError: the server cannot be reached.
    """
    check_names(names)
    async with Cluster(config) as cluster:
        chosen: list[Kind[AnyObject]] = [metadata_only((await cluster.mapper.kind_for(kind)).gvk) for kind in kinds]
        return await drain_all(cluster, names, kinds=chosen, namespace=namespace, dry_run=dry_run)


def removals_of(result: DrainResult) -> list[Removal]:
    """Return the lines of the report."""
    return [
        Removal(subject=f"{one.gvk.kind} {one.key}", action=f"remove finalizer {', '.join(one.finalizers)}")
        for one in result.drained
    ]
