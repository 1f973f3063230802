"""``opsdk replay``: runs an operator again from its recording, and shows what it saw and did."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from opsdk.builder.flags import parse_flags
from opsdk.builder.operator import Operator
from opsdk.cli.exit_status import ExitStatus
from opsdk.cli.output import Output, OutputFormat, print_json
from opsdk.cli.plan.options import PlanFormat
from opsdk.cli.plan.printing import plan_status, print_plan
from opsdk.cli.plan.request import OperatorChoice
from opsdk.cli.replay import options
from opsdk.cli.replay.cut import write_cut
from opsdk.cli.replay.inputs import (
    find_object,
    last_change_of_options,
    operator_factory,
    place_of_options,
    use_hash_seed,
)
from opsdk.cli.replay.options import Listing
from opsdk.cli.replay.raised_errors import RaisedErrors
from opsdk.cli.replay.shown_object import as_text
from opsdk.cli.replay.stepping import Stepping
from opsdk.controller.journal_format import record_to_json
from opsdk.engine.environments import environment_factory
from opsdk.engine.foreign_changes import ForeignChange, simulated_controllers
from opsdk.engine.planning import make_plan
from opsdk.engine.replay.history import foreign_changes
from opsdk.engine.replay.report import (
    causes_backwards,
    differences_of,
    heading,
    outcome_json,
    outcome_lines,
    place_line,
    reconcile_line,
)
from opsdk.engine.replay.run import OperatorReplay, PlaceKind, ReplayPlace
from opsdk.engine.replay.state import snapshot_of
from opsdk.engine.replay.timeline import Timeline
from opsdk.engine.run import OperatorRun
from opsdk.engine.snapshot import ClusterSnapshot, write_snapshot
from opsdk.recording.reading import Recording, load_recording
from opsdk.recording.records import Record
from opsdk.structured_merge.value import JsonObject

__all__ = ["replay"]


def replay(
    recording: options.RecordingArgument,
    operator: options.OperatorArgument = "",
    *,
    to_time: options.ToTime = "",
    to_reconcile: options.ToReconcile = None,
    to_write: options.ToWrite = None,
    show: options.Show = "",
    list_: options.Listed = None,
    other_version: options.OtherVersion = "",
    save: options.Save = None,
    cut: options.Cut = None,
    until: options.Until = "",
    step: options.Step = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Run an operator again from its recording, and print what it saw and did.

    opsdk replay recordings/

    opsdk replay recordings/ --list reconciles

    opsdk replay recordings/ --to-reconcile 12

    opsdk replay recordings/ --to-time 03:12:00 --show ConfigMap/default/site

    opsdk replay recordings/ --step

    opsdk replay recordings/ --to-reconcile 12 --with repaired.py

    opsdk replay recordings/ shop.operator:operator --to-reconcile 12 --cut tests/test_night.py
    """
    content = load_recording(recording)
    timeline = Timeline(content.records)
    use_hash_seed(timeline)
    target = place_of_options(timeline, to_time, to_reconcile, to_write)
    last = last_change_of_options(timeline, until, is_played=bool(other_version or cut))
    factory = operator_factory(timeline, operator)
    if step:
        _step(content, timeline, factory, target)
        return
    with RaisedErrors() as errors, OperatorReplay(timeline, factory) as running:
        running.run(target)
        obj = find_object(running.objects(), show) if show else None
        state = snapshot_of(running) if other_version or save or cut else None
        history = _history(content.records, running, state, last) if state and (other_version or cut) else ()
    warnings = [*content.problems, *differences_of(timeline, code=running.code)]
    if output is OutputFormat.JSON:
        print_json(_as_json(running, warnings, list_, obj))
    else:
        _print_text(running, target, errors, [*warnings, *_listed(running, list_)], obj, brief=state is not None)
    if state is not None and save is not None:
        _save(save, state)
    if state is not None and cut is not None:
        place, reference = _place_in_words(running, target), operator or timeline.began.reference
        write_cut(cut, state, history, reference=reference, namespace=timeline.began.namespace, place=place)
    if state is not None and other_version:
        raise SystemExit(_plan_with(other_version, timeline, state, history, output))
    if not running.outcome.is_identical:
        raise SystemExit(ExitStatus.DANGER)


def _step(content: Recording, timeline: Timeline, factory: Callable[[], Operator], target: ReplayPlace) -> None:
    print(heading(timeline), *content.problems, sep="\n")
    Stepping(content.records, factory, target).cmdloop()


def _save(path: Path, state: ClusterSnapshot) -> None:
    path.write_bytes(write_snapshot(state))
    print(f"wrote {path}: {len(state.objects)} objects", file=sys.stderr)


def _history(
    records: Sequence[Record], running: OperatorReplay, state: ClusterSnapshot, until: float | None
) -> Sequence[ForeignChange]:
    """Return what others did after the place of a replay."""
    # The replay has used its own timeline up.
    return foreign_changes(
        Timeline(records),
        objects=state.objects,
        after=running.iteration,
        since=running.outcome.seconds,
        until=until,
    )


def _plan_with(
    reference: str,
    timeline: Timeline,
    state: ClusterSnapshot,
    history: Sequence[ForeignChange],
    output: OutputFormat,
) -> int:
    """Print what a version of the operator does from a state until it has nothing more to do. Returns the status.

    Others do meanwhile what they did in the recording.

    It may do everything: a recording has the answers that the operator got, and not its role.
    """
    chosen, namespace = OperatorChoice(reference=reference, all_permissions=True), timeline.began.namespace
    operator = chosen.on_doubles(state)
    flags, _ = parse_flags(operator.name, operator.options, timeline.began.arguments, {})
    operator.options = flags
    run = OperatorRun(
        snapshot=state,
        operator=lambda: operator,
        environment=environment_factory(controllers=simulated_controllers(history)),
        namespace=namespace,
        history=history,
        rules=chosen.rules,
    )
    planned = make_plan(run.execute(), operator, namespace=namespace)
    print_plan(planned, PlanFormat.JSON if output is OutputFormat.JSON else PlanFormat.TEXT)
    return plan_status(planned, allow_unseen=True)


def _as_json(
    running: OperatorReplay, warnings: Sequence[str], listing: Listing | None, obj: JsonObject | None
) -> JsonObject:
    result = outcome_json(running.outcome, running.reconciles)
    result["warnings"] = [*warnings]
    if listing is Listing.RECONCILES:
        result["list"] = [record_to_json(record) for record in running.reconciles]
    if listing is Listing.WRITES:
        result["list"] = [{"time": write.time, "write": str(write)} for write in running.writes]
    if obj is not None:
        result["object"] = obj
    return result


def _listed(running: OperatorReplay, listing: Listing | None) -> Iterator[str]:
    if listing is Listing.RECONCILES:
        yield from (reconcile_line(number, record) for number, record in enumerate(running.reconciles, 1))
    if listing is Listing.WRITES:
        yield from (f"#{number} {write.time:.6f} s {write}" for number, write in enumerate(running.writes, 1))


def _place_in_words(running: OperatorReplay, target: ReplayPlace) -> str:
    """Return where the replay stopped, in one line."""
    return "\n".join(_place(running, target)).partition("\n  ")[0].replace("\n", ": ")


def _place(running: OperatorReplay, target: ReplayPlace) -> Iterator[str]:
    """Yield where the replay stopped, and why."""
    reconciles, writes = running.reconciles, running.writes
    if target.kind is not PlaceKind.END:
        yield place_line(running.timeline, running.outcome, target, reconciles=len(reconciles), writes=len(writes))
    if target.kind is PlaceKind.WRITE and writes:
        yield f"write #{len(writes)}: {writes[-1]}"
        yield writes[-1].request.body.decode("utf-8", "replace")
    if (number := _reconcile_number(running, target)) is not None:
        yield f"reconcile #{number}"
        yield str(reconciles[number - 1])
        yield "caused by"
        yield from causes_backwards(reconciles, reconciles[number - 1])


def _reconcile_number(running: OperatorReplay, target: ReplayPlace) -> int | None:
    """Return the number of the reconcile where a replay stopped; None if it stopped elsewhere."""
    if target.kind is not PlaceKind.RECONCILE or not running.reconciles:
        return None
    # Others may have ended in the same iteration.
    return min(int(target.number), len(running.reconciles))


def _print_text(
    running: OperatorReplay,
    target: ReplayPlace,
    errors: RaisedErrors,
    lines: Sequence[str],
    obj: JsonObject | None,
    *,
    brief: bool,
) -> None:
    """Print how the replay went, where it stopped and why, and where its reconcile raised an error.

    Args:
        running: the replay.
        target: the place.
        errors: of the replay.
        lines: printed first, after the heading.
        obj: printed last; None for no object.
        brief: leave out why it stopped there: a plan or a test of the place follows.
    """
    if brief:
        place = "\n".join(_place(running, target)).partition("\n  ")[0].splitlines()
    else:
        place = [*_place(running, target)]
        if (number := _reconcile_number(running, target)) is not None:
            place += errors.lines_of(running.reconciles[number - 1].reconcile_id)
    outcome = outcome_lines(running.outcome, running.reconciles)
    print(heading(running.timeline), *lines, *outcome, *place, sep="\n")
    if obj is not None:
        print(as_text(obj), end="")
