"""Options of clusters."""

from __future__ import annotations

from collections.abc import Collection

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.base.options import Options
from opsdk.cache.options import CacheOptions
from opsdk.client.options import FieldValidation


class ClusterOptions(Options, frozen=True, kw_only=True):
    """Options of a `Cluster`.

    Attributes:
        cache: see `CacheOptions`.
        disable_cache_for: kinds that are always read from the server.
        field_owner: the field manager of writes that set none.
        former_field_owners: field managers whose fields applied children take over: former names of the operator. See
            `opsdk.children.applier.Applier`.
        field_validation: the field validation of writes that set none.
        dry_run: store nothing, and write no Events.
        name: the reporting controller of Events, usually the program's name.
        cluster_name: the cluster's name among several; requests and log lines carry it.
    """

    cache: CacheOptions = CacheOptions()
    disable_cache_for: Collection[GroupVersionKind] = ()
    field_owner: str = ""
    former_field_owners: Collection[str] = ()
    field_validation: FieldValidation | None = None
    dry_run: bool = False
    name: str = "opsdk"
    cluster_name: str = ""
