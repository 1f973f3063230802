"""Histories of recorded runs, and what the same operator makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from replayed_runs import operator_of

from opsdk.builder.operator import Operator
from opsdk.engine.environments import environment_factory
from opsdk.engine.foreign_changes import ForeignChange, PlayedChange, simulated_controllers
from opsdk.engine.masking import masked
from opsdk.engine.replay.history import foreign_changes
from opsdk.engine.replay.run import OperatorReplay, PlaceKind, ReplayPlace
from opsdk.engine.replay.state import snapshot_of
from opsdk.engine.replay.timeline import Timeline
from opsdk.engine.run import OperatorRun
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.rbac.permissions import RuleSet
from opsdk.recording.records import Record
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.testing.simulate import Simulation

_BEFORE_STOP = 0.5
"""Seconds before the end of a recording: a stop empties the caches."""
_SERVER_SET = ("managedFields", "resourceVersion", "uid", "generation", "creationTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHistory:
    """A recording from the place where the caches are filled.

    Attributes:
        state: of the place.
        history: what others did afterwards.
        end: the objects in the caches at the end.
    """

    state: ClusterSnapshot
    history: Sequence[ForeignChange]
    end: Sequence[JsonObject]


def history_of(records: Sequence[Record], simulation: Simulation) -> RecordedHistory | None:
    """Return the history of a recording; None if the caches are never filled, or the operator fails or is killed."""
    timeline = Timeline(records)
    if timeline.end is None:
        return None
    with OperatorReplay(timeline, operator_of(simulation)) as replay:
        seconds = timeline.began.time
        while not _is_synced(replay):
            seconds += 0.5
            if replay.run(ReplayPlace(PlaceKind.TIME, seconds)).is_over:
                return None
        state, place, since = snapshot_of(replay), replay.iteration, replay.outcome.seconds
        last = timeline.time_of(timeline.last_iteration if timeline.stop is None else timeline.stop) - _BEFORE_STOP
        if replay.run(ReplayPlace(PlaceKind.TIME, last)).failure:
            return None
        end = list(replay.objects())
    history = foreign_changes(Timeline(records), objects=state.objects, after=place, since=since, until=last)
    return RecordedHistory(state=state, history=history, end=end)


def _is_synced(replay: OperatorReplay) -> bool:
    kinds = list(replay.operator.cluster.cache.kinds()) if replay.has_operator else []
    return bool(kinds) and all(kind.has_synced for kind in kinds)


def play(
    simulation: Simulation, recorded: RecordedHistory, controllers: str
) -> tuple[Sequence[JsonObject], Sequence[PlayedChange]]:
    """Run the operator of a simulation with a history. Returns the objects at the end, and the changes."""
    operator: Operator = operator_of(simulation)()
    run = OperatorRun(
        snapshot=recorded.state,
        operator=lambda: operator,
        environment=environment_factory(controllers=controllers),
        history=recorded.history,
        rules=RuleSet.everything(),
        keep_end=True,
    )
    outcome = run.execute()
    assert outcome.end is not None, outcome
    return outcome.end.objects, outcome.played


def comparable(objects: Iterable[JsonObject], kinds: Iterable[str]) -> Mapping[str, JsonValue]:
    """Return objects by their names, without what differs between two runs."""
    names = set(kinds)
    return {
        f"{obj['kind']} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}": masked("", _left(obj))
        for obj in objects
        if obj["kind"] in names
    }


def _left(obj: JsonObject) -> JsonObject:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SERVER_SET}
    status = {name: value for name, value in (obj.get("status") or {}).items() if name != "observedGeneration"}
    return {**obj, "metadata": metadata, "status": status}


def controllers_of(name: str, recorded: RecordedHistory) -> str:
    """Return the controllers of a run: those of the simulated server, but for the work that the history has."""
    if name == "applications":
        return simulated_controllers(recorded.history)
    return "garbage-collector,namespace"
