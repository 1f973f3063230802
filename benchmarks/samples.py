"""Writes and reads the samples of a run, so that a page can be made later, or of several runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.model import Results, Workload
from benchmarks.process import Outcome
from benchmarks.protocol import Sample


def save(path: Path, results: Mapping[str, Results], description: Mapping[str, str]) -> None:
    """Write all outcomes and the description of the machine."""
    outcomes = [
        {"letter": letter, "variant": variant, "client": client, **asdict(outcome), "errors": ""}
        for letter, result in results.items()
        for (variant, client), of_client in result.outcomes.items()
        for outcome in of_client
    ]
    path.write_text(json.dumps({"description": dict(description), "outcomes": outcomes}))


def load(paths: Sequence[Path], workloads: Sequence[Workload]) -> tuple[dict[str, Results], list[dict[str, str]]]:
    """Return the outcomes and descriptions of all files; of a workload in two files the later one counts."""
    results: dict[str, Results] = {}
    descriptions = []
    for path in paths:
        stored = json.loads(path.read_text())
        descriptions.append(stored["description"])
        fresh = {item["letter"] for item in stored["outcomes"]}
        results |= {workload.letter: Results(workload) for workload in workloads if workload.letter in fresh}
        for item in stored["outcomes"]:
            sample = None if item["sample"] is None else Sample(**item["sample"])
            outcome = Outcome(sample=sample, skipped=item["skipped"], failed=item["failed"])
            results[item["letter"]].outcomes[item["variant"], item["client"]].append(outcome)
    order = [workload.letter for workload in workloads]
    return {letter: results[letter] for letter in sorted(results, key=order.index)}, descriptions
