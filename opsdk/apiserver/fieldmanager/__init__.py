"""Field ownership: the logic of ``metadata.managedFields``.

Functions are pure: they take objects, and `now` as text. Endpoints decode and default before; the registry admits,
validates and stores afterwards.

Upstream: k8s.io/apimachinery/pkg/util/managedfields (v1.36).
"""
