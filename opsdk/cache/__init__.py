"""Shared informers: an in-memory copy of the server's objects, as encoded bytes with indices.

Pure: `store` (entries, indices, deltas) and `reflector` (when to list, watch, resume, back off). With I/O:
`list_watch` (requests), `informer` (loop and handlers), `reader` (reads), `cache` (informers of all kinds).

Upstream: k8s.io/client-go/tools/cache, sigs.k8s.io/controller-runtime/pkg/cache
"""
