"""The health checks of ``/healthz``, ``/livez`` and ``/readyz``. All pass before the first request.

Upstream: k8s.io/apiserver/pkg/server/healthz (v1.36)
"""

from __future__ import annotations

_HOOKS = (
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "peer-endpoint-reconciler-controller",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-wait-for-first-sync",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
)
"""Post-start hooks, in this order."""

_STARTED = tuple(f"poststarthook/{name}" for name in _HOOKS)
_AT = _STARTED.index("poststarthook/kube-apiserver-autoregistration") + 1
_WORK = (*_STARTED[:_AT], "autoregister-completion", *_STARTED[_AT:])
_ALIVE = ("ping", "log", "loopback-serving-certificate", "etcd", *_WORK)

CHECKS = {
    "healthz": _ALIVE,
    "livez": _ALIVE,
    "readyz": ("ping", "log", "informer-sync", *_WORK, "shutdown"),
}
"""The names of the checks by path."""
