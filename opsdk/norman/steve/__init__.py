"""Steve: a REST API for every type of a cluster, without configuration.

Here belong access sets, the query language, indexed lists, the schemas of a cluster and its HTTP API. Not here:
Norman's own schemas and stores.

Upstream: github.com/rancher/steve, github.com/rancher/apiserver
"""
