"""From a source to a work queue: sources, predicates, handlers, events, requests.

`opsdk.event.sources` turn informers and channels into events, `opsdk.event.predicates` drop events, and
`opsdk.event.handlers` map events to requests. `opsdk.event.dispatcher` runs the three for one source.
A request has a key and no event: a reconciler reads the current state.

Upstream: sigs.k8s.io/controller-runtime/pkg/event, pkg/source, pkg/predicate, pkg/handler, pkg/reconcile
"""
