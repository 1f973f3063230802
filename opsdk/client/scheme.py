"""The scheme of the built-in kinds.

Upstream: k8s.io/client-go/kubernetes/scheme (v1.36).
"""

from opsdk.apimachinery.scheme import Scheme

__all__ = ["default_scheme"]


def default_scheme() -> Scheme:
    """Return a new scheme with every built-in kind. The module of a kind is imported when the kind is first used.

    >>> from opsdk.api.apps.v1 import Deployment
    >>> default_scheme().type_for(Deployment.gvk) is Deployment
    True
    """
    # Start-up time: the table is long, and a custom scheme does not need it.
    from opsdk.api.generated_kinds import BUILT_IN  # noqa: PLC0415

    return Scheme().add_lazily(BUILT_IN)
