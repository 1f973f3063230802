"""The scheme of the built-in kinds.

Upstream: k8s.io/client-go/kubernetes/scheme (v1.36).
"""

from opsdk.apimachinery.scheme import Scheme


def default_scheme() -> Scheme:
    """A new scheme that knows every built-in kind; a kind's module is imported when it is first used.

    >>> from opsdk.api.apps.v1 import Deployment
    >>> default_scheme().type_for(Deployment.gvk) is Deployment
    True
    """
    # Imported here for start-up time: the table is long, and a scheme of one's own does without it.
    from opsdk.api.generated_kinds import BUILT_IN  # noqa: PLC0415

    return Scheme().add_lazily(BUILT_IN)
