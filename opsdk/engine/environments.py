"""The environments of runs: local API servers with the objects of a snapshot."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from opsdk.engine.installation import RunEnvironment
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.errors import UsageError

__all__ = ["environment_factory", "import_envtest"]

_HISTORY: Final = 200
"""Writes that are kept. Only a watch that breaks needs them, and a run adds the writes up itself."""
_WRITES: Final = 2_000
_WRITES_PER_OBJECT: Final = 10


def import_envtest(use: str) -> Any:
    """Return the module envtest. It is an extra: plans and proofs run on it, operators do not need it.

    Args:
        use: what needs it, to begin the error with.

    Raises:
        UsageError: envtest is not installed.
    """
    if importlib.util.find_spec("envtest") is None:
        raise UsageError(f"{use} on a local API server: pip install 'opsdk[envtest]'")
    import envtest  # noqa: PLC0415 - an extra; it imports opsdk

    return envtest


def environment_factory(
    *, controllers: str = "cluster"
) -> Callable[[ClusterSnapshot], AbstractAsyncContextManager[RunEnvironment]]:
    """Return a function that makes the environment of a run.

    Args:
        controllers: that are simulated; ``none`` where those of a real cluster do their work.

    Raises:
        UsageError: envtest is not installed.
    """
    envtest = import_envtest("a plan runs the operator")

    def make(snapshot: ClusterSnapshot) -> AbstractAsyncContextManager[RunEnvironment]:
        environment: AbstractAsyncContextManager[RunEnvironment] = envtest.Environment(
            controllers=controllers,
            snapshot=snapshot,
            history_limit=_HISTORY,
            # Events are not a part of a snapshot or a plan, and are a tenth of the writes of a mass restart.
            controller_events=False,
            # A change of many objects takes no virtual time.
            hot_loop_limit=_WRITES + _WRITES_PER_OBJECT * len(snapshot.objects),
        )
        return environment

    return make
