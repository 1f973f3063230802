"""What a generated workload lacks, so that its runs say little about an operator. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from opsdk.base.shortened import shortened
from opsdk.engine.world.outcome import Outcome
from opsdk.verification.absent_namespaces import AbsentNamespaces
from opsdk.verification.generated import GeneratedRun
from opsdk.verification.workload.operations import Operation
from opsdk.verification.workload.values import ValueClass

__all__ = ["WorkloadGaps"]

_MAX_SHOWN: Final = 5
_MAX_ERROR: Final = 200
_EXAMPLE: Final = "add a valid one with --example"


class WorkloadGaps:
    """Collects from undisturbed runs what is missing.

    Args:
        kinds: of the custom resources.

    Attributes:
        written: kinds for whose custom resources the operator wrote something.
        absent_namespaces: that the operator writes into, and that nothing creates.
    """

    def __init__(self, kinds: Collection[str]) -> None:
        self.written: set[str] = set()
        self.absent_namespaces = AbsentNamespaces()
        self._kinds = kinds
        self._refusals: dict[str, str] = {}
        self._accepted: set[str] = set()
        self._rests: Counter[str] = Counter()
        self._missing: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
        self._objects: set[str] = set()
        """Resource, namespace and name of the objects that the operator wrote."""
        self._restless: dict[str, None] = {}
        self._edges: dict[str, str] = {}
        """The first error of each change to a value at the edge, which the API server refuses in another object."""

    def note(self, run: GeneratedRun, outcome: Outcome) -> None:
        """Note an undisturbed run of a workload, whose actions were called last by it."""
        if any(write.changed for write in outcome.writes):
            self.written.add(run.kind)
        self._restless.update(dict.fromkeys(outcome.restless))
        self.absent_namespaces.note(outcome.writes)
        for number, step in enumerate(run.steps[:-1]):
            if step.action.refusal:
                self._refusals.setdefault(run.kind, step.action.refusal)
                continue
            self._accepted.add(run.kind)
            state = outcome.states.get(number + 1)
            if state is None:
                continue
            self._objects.update(key.partition("/")[2] for key in state.keys)
            if step.operation is None or step.operation.value_class is not ValueClass.MISOPERATION:
                self._missing[run.kind].update(state.missing)
                self._rests[run.kind] += 1

    def note_edge(self, operation: Operation, error: str) -> None:
        """Note a value at the edge of the schema that the operator passes on, and the API server refuses.

        Some authors leave the validation to the API server on purpose, so it is no bug.
        """
        self._edges.setdefault(", ".join(map(str, operation.changes)), error)

    def says_something(self, *, has_systems: bool) -> bool:
        """Whether the operator did anything that the runs show, and each of its writes had a place.

        Args:
            has_systems: it may change external systems only, which is not seen.
        """
        return bool(self.written or (has_systems and self._accepted)) and not self.absent_namespaces.names

    def advice(self) -> Iterator[str]:
        """Yield what to add, one sentence each."""
        if self._restless:
            writes = ", ".join(list(self._restless)[:_MAX_SHOWN])
            yield (
                f"the operator does not come to rest without a disturbance ({writes}): "
                "let it compare what it would write with what exists"
            )
        for change, error in islice(self._edges.items(), _MAX_SHOWN):
            text = shortened(error, _MAX_ERROR)
            yield f"{change}: {text}: refuse such values in the schema, or report them in the status"
        yield from self.absent_namespaces.texts("add it with --example")
        for kind in self._kinds:
            if kind in self._refusals and kind not in self._accepted:
                yield f"the server refuses each generated {kind} ({self._refusals[kind]}): {_EXAMPLE}"
            elif kind not in self.written:
                yield f"the operator wrote nothing for any generated {kind}: {_EXAMPLE}"
            for name in self.absent_objects(kind):
                yield f"the operator looks for {name}, which nothing creates: add it with --example"

    def absent_objects(self, kind: str) -> Iterator[str]:
        """Yield what the operator looks for, and nothing creates, while it reconciles a kind: ``Pod default/*``."""
        # Once it may have been read before something was there.
        often = min(2, self._rests[kind])
        for name, count in self._missing[kind].most_common(_MAX_SHOWN):
            if count >= often and not self._is_own(name):
                yield name

    def _is_own(self, name: str) -> bool:
        """Whether the operator itself writes an object that it looked for in vain."""
        kind, _, key = name.partition(" ")
        return any(each.startswith(kind.lower()) and each.endswith(f"/{key}") for each in self._objects)
