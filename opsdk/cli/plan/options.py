"""The options of ``opsdk plan`` and ``opsdk snapshot``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from opsdk.engine.plan import ConsequenceKind


class PlanFormat(StrEnum):
    """For people, for a pull request, or for programs."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


# ------------------------------------------------------------------ the cluster
Kubeconfig = Annotated[Path | None, typer.Option(metavar="FILE", help="kubeconfig file; default: $KUBECONFIG")]
Context = Annotated[str, typer.Option(help="kubeconfig context")]
User = Annotated[
    str, typer.Option("--as", metavar="USER", help="read as this user, such as the operator's service account")
]
SnapshotFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="plan for this snapshot instead of the cluster")
]
AllowUnseen = Annotated[
    bool, typer.Option("--allow-unseen", help="accept a plan for a cluster that could not be read wholly")
]

# ------------------------------------------------------------------ the other version
Against = Annotated[
    str,
    typer.Option(
        metavar="VERSION", help="print what differs from a checkout, wheel, environment, git:REVISION or image:NAME"
    ),
]
AgainstTimeout = Annotated[
    float, typer.Option(metavar="SECONDS", min=1, help="time limit of each run of the other version")
]

# ------------------------------------------------------------------ the leader
Shadow = Annotated[bool, typer.Option("--shadow", help="compare with the leader that runs in the cluster, live")]
Leader = Annotated[
    list[str] | None, typer.Option(metavar="MANAGER", help="field manager of the leader; default: the operator's")
]
Wait = Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="how much later one side may decide")]

# ------------------------------------------------------------------ the user's changes
Files = Annotated[
    list[Path] | None, typer.Option("--file", "-f", metavar="FILE", help="apply these objects, as kubectl apply")
]
Deletions = Annotated[list[str] | None, typer.Option(metavar="KIND/NAMESPACE/NAME", help="delete this object")]
Scales = Annotated[
    list[str] | None, typer.Option(metavar="KIND/NAMESPACE/NAME=N", help="set spec.replicas of this object")
]

# ------------------------------------------------------------------ the operator
Flags = Annotated[
    list[str] | None, typer.Option("--set", metavar="FLAG=VALUE", help="a flag of the operator, without dashes")
]
DoublesName = Annotated[
    str, typer.Option(metavar="MODULE:NAME", help="doubles of external systems; default: those in pyproject.toml")
]
AllowedHosts = Annotated[list[str] | None, typer.Option(metavar="HOST", help="a host that the operator may reach")]
AllPermissions = Annotated[
    bool, typer.Option("--all-permissions", help="run the operator as an admin, not with its declared permissions")
]
Until = Annotated[
    float, typer.Option(metavar="SECONDS", min=1, help="virtual seconds until the plan ends; real ones of --shadow")
]

# ------------------------------------------------------------------ the output
FailOn = Annotated[
    list[ConsequenceKind] | None, typer.Option(help="consequences that exit with 3; default: all dangerous ones")
]
Save = Annotated[Path | None, typer.Option(metavar="FILE", help="write the state at the end as a snapshot")]
Output = Annotated[PlanFormat, typer.Option(help="output format")]
