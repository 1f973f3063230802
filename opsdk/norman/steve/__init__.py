"""Steve: a REST API for every type of a cluster, without configuration.

Here belong access sets, the query language, indexed lists, the schemas of a cluster and its HTTP API. Not here:
Norman's own schemas and stores.

The names are imported when they are first used. Type checkers read ``__init__.pyi``.

Upstream: github.com/rancher/steve, github.com/rancher/apiserver
"""

from opsdk.loading import names_on_first_use

_HOMES = {
    "access_set": ("AccessSet", "VisibleObjects"),
    "access_set_store": ("AccessSetStore",),
    "api": ("SteveApi", "SteveOptions"),
    "app": ("SteveApp", "token_review"),
    "cluster_schemas": ("SteveColumn", "SteveSchema"),
    "indexed_list": ("IndexedList", "IndexedListOptions", "IndexedPage"),
    "query": ("SteveQuery", "parse_query"),
    "store": ("SteveStore", "Target"),
    "template": ("SchemaTemplate",),
}

__all__ = [
    "AccessSet",
    "AccessSetStore",
    "IndexedList",
    "IndexedListOptions",
    "IndexedPage",
    "SchemaTemplate",
    "SteveApi",
    "SteveApp",
    "SteveColumn",
    "SteveOptions",
    "SteveQuery",
    "SteveSchema",
    "SteveStore",
    "Target",
    "VisibleObjects",
    "parse_query",
    "token_review",
]

__getattr__ = names_on_first_use(globals(), _HOMES)


def __dir__() -> list[str]:
    return __all__
