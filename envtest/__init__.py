"""A local Kubernetes control plane: the API-server framework of opsdk with the built-in kinds.

`envtest.environment.Environment` is the way in for tests, ``python -m envtest serve`` the one for people.
"""

from envtest.environment import Environment

__all__ = ["Environment"]
