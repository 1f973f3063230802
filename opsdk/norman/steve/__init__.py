"""Steve: a REST API for every type of a cluster, without configuration.

Here belong access sets, the query language, indexed lists, the schemas of a cluster and its HTTP API. Not here:
Norman's own schemas and stores.

Upstream: github.com/rancher/steve, github.com/rancher/apiserver
"""

from opsdk.norman.steve.access_set import AccessSet, VisibleObjects
from opsdk.norman.steve.access_set_store import AccessSetStore
from opsdk.norman.steve.api import SteveApi, SteveOptions
from opsdk.norman.steve.app import SteveApp, token_review
from opsdk.norman.steve.cluster_schemas import SteveColumn, SteveSchema
from opsdk.norman.steve.indexed_list import IndexedList, IndexedListOptions, IndexedPage
from opsdk.norman.steve.query import SteveQuery, parse_query
from opsdk.norman.steve.store import SteveStore, Target
from opsdk.norman.steve.template import SchemaTemplate

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
