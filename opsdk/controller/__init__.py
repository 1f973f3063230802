"""Controllers: sources feed a work queue, workers take requests from it and call the reconciler.

Upstream: sigs.k8s.io/controller-runtime/pkg/controller, pkg/internal/controller
"""
