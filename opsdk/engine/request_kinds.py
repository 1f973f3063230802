"""What a request is about, by its method and path. Pure."""

from __future__ import annotations

__all__ = ["changes_state", "is_event", "is_lease", "is_review", "is_write"]


def is_write(method: str) -> bool:
    """Whether a request changes objects."""
    return method in ("POST", "PUT", "PATCH", "DELETE")


def is_lease(path: str) -> bool:
    """Whether a request is about a Lease: leader election continues in calm periods."""
    return "/apis/coordination.k8s.io/" in path and "/leases" in path


def is_event(path: str) -> bool:
    """Whether a request is about an Event, which every replica may write at any time."""
    return path.partition("/namespaces/")[2].split("/")[1:2] == ["events"]


def is_review(path: str) -> bool:
    """Whether a request is a review, which stores nothing: a standby replica sends some at its start."""
    return path.startswith(("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"))


def changes_state(method: str, path: str) -> bool:
    """Whether a request is a write that leadership has to guard.

    >>> changes_state("PATCH", "/api/v1/namespaces/default/configmaps/a")
    True
    >>> changes_state("PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/a")
    False
    """
    return is_write(method) and not (is_lease(path) or is_event(path) or is_review(path))
