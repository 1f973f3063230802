"""``opsdk replay``: runs an operator again from its recording, and shows what it saw and did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
import yaml

from opsdk.cli.output import Output, OutputFormat, print_json
from opsdk.cli.replay.inputs import find_object, operator_factory, place_of_options, use_hash_seed
from opsdk.cli.replay.stepping import Stepping
from opsdk.controller.journal_format import record_to_json
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
from opsdk.engine.replay.timeline import Timeline
from opsdk.recording.reading import load_recording
from opsdk.structured_merge.value import JsonObject

__all__ = ["replay"]

_DIFFERS: Final = 3
"""The exit status if a request differs from the recording."""


class Listing(StrEnum):
    """What is listed."""

    RECONCILES = "reconciles"
    WRITES = "writes"


def replay(
    recording: Annotated[Path, typer.Argument(help="a file of the recording, or its directory: the newest one in it")],
    operator: Annotated[
        str, typer.Argument(metavar="[MODULE:OPERATOR|FILE]", help="default: the operator that was recorded")
    ] = "",
    *,
    to_time: Annotated[
        str, typer.Option(metavar="TIME", help="stop at a time: seconds, HH:MM:SS in UTC, or ISO 8601")
    ] = "",
    to_reconcile: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="stop at the end of the Nth reconcile")
    ] = None,
    to_write: Annotated[int | None, typer.Option(metavar="N", min=1, help="stop when the Nth write is sent")] = None,
    show: Annotated[
        str, typer.Option(metavar="KIND[/NAMESPACE]/NAME", help="print an object as the operator sees it there")
    ] = "",
    list_: Annotated[Listing | None, typer.Option("--list", help="list the reconciles, or the writes")] = None,
    step: Annotated[bool, typer.Option("--step", help="step through it with commands; help lists them")] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Run an operator again from its recording, and print what it saw and did.

    opsdk replay recordings/

    opsdk replay recordings/ --list reconciles

    opsdk replay recordings/ --to-reconcile 12

    opsdk replay recordings/ --to-time 03:12:00 --show ConfigMap/default/site

    opsdk replay recordings/ --step
    """
    content = load_recording(recording)
    timeline = Timeline(content.records)
    use_hash_seed(timeline)
    target = place_of_options(timeline, to_time, to_reconcile, to_write)
    factory = operator_factory(timeline, operator)
    warnings = [*content.problems, *differences_of(timeline, code="")]
    if step:
        print(heading(timeline), *warnings, sep="\n")
        Stepping(content.records, factory, target).cmdloop()
        return
    with OperatorReplay(timeline, factory) as running:
        running.run(target)
        obj = find_object(running.objects(), show) if show else None
    if output is OutputFormat.JSON:
        print_json(_as_json(running, warnings, list_, obj))
    else:
        print(heading(timeline), *warnings, *_listed(running, list_), sep="\n")
        print(*outcome_lines(running.outcome, running.reconciles), *_place(running, target), sep="\n")
        if obj is not None:
            print(yaml.safe_dump(obj, sort_keys=False), end="")
    if not running.outcome.is_identical:
        raise SystemExit(_DIFFERS)


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


def _place(running: OperatorReplay, target: ReplayPlace) -> Iterator[str]:
    """Yield where the replay stopped, and why."""
    reconciles, writes = running.reconciles, running.writes
    if target.kind is not PlaceKind.END:
        yield place_line(running.timeline, running.outcome, reconciles=len(reconciles), writes=len(writes))
    if target.kind is PlaceKind.WRITE and writes:
        yield f"write #{len(writes)}: {writes[-1]}"
        yield writes[-1].request.body.decode("utf-8", "replace")
    if target.kind is PlaceKind.RECONCILE and reconciles:
        # Others may have ended in the same iteration.
        number = min(int(target.number), len(reconciles))
        yield f"reconcile #{number}"
        yield str(reconciles[number - 1])
        yield "caused by"
        yield from causes_backwards(reconciles, reconciles[number - 1])
