"""The faults of the simulation, and the alert that each of them fires: reads ``tests/monitoring/matrix.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from opsdk.testing.simulate import Fault

_DOCUMENT = tomllib.loads((Path(__file__).parents[1] / "monitoring" / "matrix.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a fault fires; see the file."""

    alert: str
    reason: str = ""
    workload: str = "busy"
    without_election: str | None = None


MATRIX = {Fault(name): Row(**fields) for name, fields in _DOCUMENT["faults"].items()}
"""Each fault lasts for two minutes."""
WITHOUT_FAULT: dict[str, str] = _DOCUMENT["without_fault"]
"""The alerts that no fault of the simulation fires, and what proves them instead."""
