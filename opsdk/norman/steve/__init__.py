"""Steve: a REST API for every type of a cluster, without configuration.

This package has the schemas of a cluster, the parameters of ``/v1``, and its HTTP API. Queries, permissions and lists
are in `opsdk.norman.collections`.

Upstream: github.com/rancher/steve, github.com/rancher/apiserver
"""

from opsdk.norman.steve.api import SteveApi, SteveOptions
from opsdk.norman.steve.app import SteveApp
from opsdk.norman.steve.cluster_schemas import SteveColumn, SteveSchema
from opsdk.norman.steve.store import SteveStore, Target
from opsdk.norman.steve.template import SchemaTemplate

__all__ = [
    "SchemaTemplate",
    "SteveApi",
    "SteveApp",
    "SteveColumn",
    "SteveOptions",
    "SteveSchema",
    "SteveStore",
    "Target",
]
