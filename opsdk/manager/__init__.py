"""Manager: starts runnables in order, and stops them in reverse order; health checks, metrics, signals.

The manager knows only the Protocols of `opsdk.base.runnable`. Controllers and caches are in other packages.

Upstream: sigs.k8s.io/controller-runtime/pkg/manager
"""
