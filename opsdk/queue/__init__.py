"""The work queue: deduplication, priorities, delays, rate limiting. `core` and `rate_limiters` are pure.

It does not know Kubernetes; controllers and sources use it.

Upstream: k8s.io/client-go/util/workqueue, sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue
"""
