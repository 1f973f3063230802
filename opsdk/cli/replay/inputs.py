"""What ``opsdk replay`` reads from the command line: the operator, places, objects."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from opsdk.builder.flags import parse_flags
from opsdk.builder.operator import Operator
from opsdk.cli.loading import load_operator
from opsdk.engine.replay.run import PlaceKind, ReplayPlace
from opsdk.engine.replay.state import NO_CACHES
from opsdk.engine.replay.timeline import Timeline
from opsdk.errors import UsageError
from opsdk.recording.loop import EPOCH
from opsdk.structured_merge.value import JsonObject

_HASH_SEED: Final = "PYTHONHASHSEED"


def operator_factory(timeline: Timeline, reference: str) -> Callable[[], Operator]:
    """Return what creates the operator of a recording, with the flags of the recorded process.

    Args:
        timeline: of the recording.
        reference: names the operator; empty for that of the recording.

    The function raises `UsageError` if the operator cannot be loaded.
    """
    began = timeline.began
    reference = reference or began.reference

    def make() -> Operator:
        _forget_modules(reference)
        target = load_operator(reference)
        target.options, _ = parse_flags(target.name, target.options, began.arguments, began.environment)
        return target

    return make


def find_object(objects: Iterable[JsonObject], reference: str) -> JsonObject:
    """Return an object of a cache. Raises `UsageError` if it is not there."""
    kind, *key = reference.split("/")
    namespace, name = ("", *key)[-2:] if key else ("", "")
    kinds: set[str] = set()
    for obj in objects:
        metadata = obj["metadata"]
        if (obj["kind"], metadata.get("namespace", ""), metadata["name"]) == (kind, namespace, name):
            return obj
        kinds.add(str(obj["kind"]))
    if not kinds:
        raise UsageError(f"there is no {reference}: {NO_CACHES}")
    raise UsageError(
        f"the operator has no {reference} there: write KIND/NAMESPACE/NAME; its cache has {', '.join(sorted(kinds))}"
    )


def place_of_options(timeline: Timeline, time: str, reconcile: int | None, write: int | None) -> ReplayPlace:
    """Return the place that the options name. Raises `UsageError` if they name several."""
    if sum(map(bool, (time, reconcile, write))) > 1:
        raise UsageError("--to-time, --to-reconcile and --to-write are three places: pass one of them")
    if time:
        return ReplayPlace(PlaceKind.TIME, parse_time(timeline, time))
    if reconcile:
        return ReplayPlace(PlaceKind.RECONCILE, reconcile)
    return ReplayPlace(PlaceKind.WRITE, write) if write else ReplayPlace()


def last_change_of_options(timeline: Timeline, until: str, *, is_played: bool) -> float | None:
    """Return the time of the last change of others to play, in seconds of the event loop; None for all of them.

    Raises:
        UsageError: the time has another form, or nothing is played.
    """
    if until and not is_played:
        raise UsageError("--until ends what --with and --cut play: pass one of them, or --to-time to stop the replay")
    return parse_time(timeline, until, option="--until") if until else None


def _forget_modules(reference: str) -> None:
    """Let the operator's modules be imported again: a process begins with none of their variables."""
    module = reference.partition(":")[0]
    top = Path(module).stem if module.endswith(".py") else module.partition(".")[0]
    for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
        del sys.modules[name]


def parse_time(timeline: Timeline, text: str, *, option: str = "--to-time") -> float:
    """Return a time of the event loop, in seconds. Raises `UsageError`, which names the option."""
    origin = EPOCH + timedelta(microseconds=timeline.start_wall)
    try:
        if ":" not in text:
            return timeline.start_time + float(text)
        if "T" not in text:
            start = origin + timedelta(seconds=timeline.start_time)
            moment = datetime.combine(start.date(), datetime.strptime(text, "%H:%M:%S").time(), UTC)  # noqa: DTZ007
            moment += timedelta(days=moment < start.replace(microsecond=0))
        else:
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError as error:
        raise UsageError(f"{option} is {text!r}: write seconds, HH:MM:SS in UTC, or ISO 8601") from error
    return (moment - origin).total_seconds()


def use_hash_seed(timeline: Timeline) -> None:
    """Run again with the seed of hashes that the recorded process had: sets of strings have its order."""
    seed = timeline.began.environment.get(_HASH_SEED, "")
    if seed and seed != "random" and os.environ.get(_HASH_SEED) != seed:
        os.execve(  # noqa: S606 - this program, with its own arguments
            sys.executable, [sys.executable, "-m", "opsdk.cli", *sys.argv[1:]], {**os.environ, _HASH_SEED: seed}
        )
