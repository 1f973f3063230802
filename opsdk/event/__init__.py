"""Events and requests: the values that travel from a source to a work queue.

`opsdk.sources` turn informers and channels into events, `opsdk.predicates` drop events, `opsdk.handlers` map events to
requests. A request has a key and no event: a reconciler reads the current state.

Upstream: sigs.k8s.io/controller-runtime/pkg/event, pkg/reconcile
"""
