"""A local Kubernetes control plane: the API-server framework of opsdk with the built-in kinds.

Tests use `envtest.environment.Environment`; ``python -m envtest serve`` starts a server process.
"""

from typing import Any

__all__ = ["Environment"]


def __getattr__(name: str) -> Any:
    """Import `Environment` lazily: every run of pytest imports this package for its plugin."""
    if name != "Environment":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from envtest.environment import Environment  # noqa: PLC0415 - imported lazily

    return Environment
