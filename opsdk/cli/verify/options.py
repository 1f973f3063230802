"""The options of ``opsdk verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# ------------------------------------------------------------------ what is verified
Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- COMMAND...]", help="an operator in any language; needs --workload or --crds"),
]
Workloads = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="steps of a user, for a command; default: generated")
]
Definitions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SOURCE",
        help="definitions of a command's kinds, and of kinds without a class: a file, folder, URL or release on GitHub",
    ),
]
Examples = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="custom resources to begin with, and to take values from")
]
Checks = Annotated[
    list[str] | None, typer.Option(metavar="KIND:CEL", help="what holds of each object, as self, at rest")
]
Ignored = Annotated[
    list[str] | None, typer.Option(metavar="RESOURCE[:PATH]", help="not compared, as what records the past")
]

# ------------------------------------------------------------------ how it is attacked
Operations = Annotated[int | None, typer.Option(min=1, help="operations on each kind; default: 60, of a command 6")]
Budget = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="disturbances to run, the most different first; default: 150, of a command 40"
    ),
]
TimeLimit = Annotated[float, typer.Option(metavar="SECONDS", min=1, help="time for all runs")]
Seed = Annotated[int, typer.Option(help="of the order of fields; with --exhaustive of tasks too")]
ForeignChanges = Annotated[
    bool, typer.Option("--foreign-changes", help="also delete and edit each child, as a foreign client")
]
Exhaustive = Annotated[bool, typer.Option("--exhaustive", help="run every schedule with one crash and one stale view")]
Quiet = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="without a write, after which a command is at rest")
]
Patience = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="in which a command at rest must reach the usual state")
]
Parallel = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="runs at once; default: one per processor, of a command 1"),
]

# ------------------------------------------------------------------ the output
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="write the result as JUnit XML, too")]
Sarif = Annotated[Path | None, typer.Option(metavar="FILE", help="write the bugs as SARIF, with file and line, too")]
