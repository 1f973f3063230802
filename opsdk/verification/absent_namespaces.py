"""Namespaces that an operator writes into, and that nothing creates. Pure.

The local server has the namespaces of a new cluster, and those that a workload creates. An operator that writes into a
namespace of its own meets 404 there, and what it would do with the answer is not verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from opsdk.engine.world.exchange import Exchange

__all__ = ["AbsentNamespaces"]

_NEW_CLUSTER: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_NOT_FOUND: Final = 404


class AbsentNamespaces:
    """Collects from undisturbed runs the namespaces into which no write of any run succeeded.

    Only what each run writes into counts: another one may come from a generated value of a field.

    >>> AbsentNamespaces().names
    []
    """

    def __init__(self) -> None:
        self._runs: list[dict[str, bool]] = []

    def note(self, writes: Iterable[Exchange]) -> None:
        """Note the writes of a run."""
        if run := _answers(writes):
            self._runs.append(run)

    @property
    def names(self) -> list[str]:
        """The namespaces, in the order of the writes."""
        first = self._runs[0] if self._runs else {}
        return [name for name in first if all(run.get(name, False) for run in self._runs)]

    def texts(self, advice: str) -> Sequence[str]:
        """Return a sentence about each namespace, with what to add."""
        return [f"the operator writes into the namespace {name}, which does not exist: {advice}" for name in self.names]


def _answers(writes: Iterable[Exchange]) -> dict[str, bool]:
    """Return the namespaces of a run, and whether each write into them was answered with 404.

    A deletion of an absent object is answered so too, and does not count.
    """
    is_absent: dict[str, bool] = {}
    for write in writes:
        name = write.path.partition("/namespaces/")[2].partition("/")[0]
        if name and write.method != "DELETE":
            is_absent[name] = write.status == _NOT_FOUND and is_absent.get(name, name not in _NEW_CLUSTER)
    return is_absent
