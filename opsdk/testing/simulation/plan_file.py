"""Plans of faults in files, for a server whose clients are other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import read_documents
from opsdk.engine.world.faults import DEFAULT_FAULTS, NETWORK_FAULTS, Fault, Step
from opsdk.engine.world.link import Link
from opsdk.errors import ConfigError, UsageError
from opsdk.structured_merge.value import JsonValue
from opsdk.testing.simulation.plan import PlanOptions, draw_plan

_OPTIONS = {"duration", "max_faults", "max_seconds", "faults"}


def parse_plan(text: str, seed: int) -> tuple[Step, ...]:
    """Return the steps of a plan in YAML or JSON.

    Args:
        text: a list of steps, or a mapping with any of ``duration``, ``max_faults``, ``max_seconds`` and ``faults``,
            from which the seed draws steps. Times are in seconds.
        seed: of the drawn plan.

    Raises:
        ConfigError: the text is not a plan, or has faults that need the operator's process.

    >>> parse_plan('[{"time": 2, "name": "unavailable", "seconds": 5}]', seed=0)
    (Step(time=2, name='unavailable', seconds=5),)
    """
    try:
        documents = read_documents(text.encode())
    except SyntaxProblemError as error:
        raise ConfigError(f"the plan is neither YAML nor JSON: {error}") from error
    value = documents[0] if documents else None
    try:
        steps = [Step.from_json(item) for item in value] if isinstance(value, list) else _drawn(value, seed)
    except UsageError as error:
        raise ConfigError(str(error)) from error
    allowed = sorted(fault.value for fault in NETWORK_FAULTS)
    for step in steps:
        if step.name not in allowed:
            raise ConfigError(f"{step.name!r} is not a fault of the network: choose from {', '.join(allowed)}")
    return tuple(sorted(steps, key=lambda step: step.time))


def _drawn(value: JsonValue, seed: int) -> Sequence[Step]:
    if not isinstance(value, dict) or not set(value) <= _OPTIONS:
        raise UsageError(f"a plan is a list of steps, or a mapping with some of {', '.join(sorted(_OPTIONS))}")
    default = [fault.value for fault in DEFAULT_FAULTS if fault in NETWORK_FAULTS]
    try:
        faults = [Fault(name) for name in value.get("faults", default)]
        return draw_plan(seed, PlanOptions(**{**value, "faults": faults}))
    except (TypeError, ValueError) as error:
        raise UsageError(f"the plan has an invalid value: {error}") from error


def read_plan(path: Path, seed: int) -> tuple[Step, ...]:
    """Return the steps of a file; see `parse_plan`. Raises `ConfigError`, also if the file cannot be read."""
    try:
        return parse_plan(path.read_text(), seed)
    except OSError as error:
        raise ConfigError(f"the plan of faults cannot be read: {error}") from error


async def play(link: Link, steps: Sequence[Step]) -> None:
    """Apply each step to a link at its time, counted from now. Times and durations are those of the event loop."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for step in steps:
        await asyncio.sleep(max(begin + step.time - loop.time(), 0.0))
        await link.apply(step)
