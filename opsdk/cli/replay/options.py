"""Options of ``opsdk replay``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Cut",
    "Listed",
    "Listing",
    "OperatorArgument",
    "OtherVersion",
    "RecordingArgument",
    "Save",
    "Show",
    "Step",
    "ToReconcile",
    "ToTime",
    "ToWrite",
    "Until",
]


class Listing(StrEnum):
    """What is listed."""

    RECONCILES = "reconciles"
    WRITES = "writes"


RecordingArgument = Annotated[
    Path, typer.Argument(metavar="RECORDING", help="a file of the recording, or its directory: the newest one in it")
]
OperatorArgument = Annotated[
    str, typer.Argument(metavar="[MODULE:OPERATOR|FILE]", help="default: the operator that was recorded")
]
ToTime = Annotated[str, typer.Option(metavar="TIME", help="stop at a time: seconds, HH:MM:SS in UTC, or ISO 8601")]
ToReconcile = Annotated[int | None, typer.Option(metavar="N", min=1, help="stop at the end of the Nth reconcile")]
ToWrite = Annotated[int | None, typer.Option(metavar="N", min=1, help="stop when the Nth write is sent")]
Show = Annotated[
    str, typer.Option(metavar="KIND[/NAMESPACE]/NAME", help="print an object as the operator sees it there")
]
Listed = Annotated[Listing | None, typer.Option("--list", help="list the reconciles, or the writes")]
OtherVersion = Annotated[
    str, typer.Option("--with", metavar="MODULE:OPERATOR", help="print what another version would do from there")
]
Save = Annotated[
    Path | None, typer.Option(metavar="FILE", help="write the state there into a snapshot, for opsdk plan")
]
Cut = Annotated[Path | None, typer.Option(metavar="TEST", help="write a test that begins with the state there")]
Until = Annotated[
    str,
    typer.Option(metavar="TIME", help="--with and --cut play what others did until then; default: until its end"),
]
Step = Annotated[bool, typer.Option("--step", help="step through it with commands; help lists them")]
