"""One API server with transport, client, cache, mapper and recorder.

Upstream: sigs.k8s.io/controller-runtime/pkg/cluster
"""
