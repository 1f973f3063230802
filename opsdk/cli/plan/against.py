"""``opsdk plan --against``: what this version of an operator does that another version does not.

The other version runs in processes of its own, and twice. At first it runs on the state without the user's changes,
until it has nothing more to do: that end is the base. Then it runs from the base with the user's changes, as this
version does in this process. The plan is the difference of these two runs.

Why a base: what a cluster still lacks of the other version is not a change between the versions. Why a second run
instead of the base with the changes already made: this version must meet the changes itself. Its reaction to a deletion
or to a new object is a part of the question, and would be lost if the other version had already dealt with them. The
second run also subtracts what each start writes again, and the loops and failures that both versions have.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from opsdk.cli.output import show_progress
from opsdk.cli.plan.processes import FinishedProgram, OtherVersionError, stopped_by_sigterm
from opsdk.cli.plan.versions import OtherVersion, VersionRequest, find_version
from opsdk.engine.plan import ConsequenceKind, Plan
from opsdk.engine.plan_difference import subtract_plan
from opsdk.engine.snapshot import ClusterSnapshot, write_snapshot
from opsdk.engine.snapshot_file import read_snapshot_file

__all__ = ["OtherPlan", "plan_of_other_version"]

_DOCUMENT: Final = re.compile(r"^\{$.*^\}$", re.MULTILINE | re.DOTALL)
"""The plan in the output of a process: other lines are what the operator's own code prints."""
_RESTLESS: Final = frozenset({ConsequenceKind.NO_FIXPOINT, ConsequenceKind.OPERATOR_FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPlan:
    """What another version does.

    Attributes:
        name: of the version, for the head of the plan.
        state: the state that both versions are compared on, as it was read.
        base: the state after the other version has nothing more to do.
        plan: of the other version, from the base, with the changes of the user.
    """

    name: str
    state: ClusterSnapshot
    base: ClusterSnapshot
    plan: Plan

    def subtracted_from(self, plan: Plan) -> Plan:
        """Return what a plan of this version, made from the base, has beyond the plan of the other version."""
        difference = subtract_plan(plan, self.plan, against=self.name)
        # The reader knows the cluster by the snapshot, not by the base.
        return msgspec.structs.replace(
            difference, taken_at=self.state.taken_at, server_version=self.state.server_version
        )


def plan_of_other_version(
    request: VersionRequest, state: ClusterSnapshot, *, words: Sequence[str], changes: Sequence[str]
) -> OtherPlan:
    """Run another version of the operator on a state, in processes of its own.

    Args:
        request: which version.
        state: the objects of the cluster.
        words: options of ``opsdk plan`` for both of its runs.
        changes: options with the user's changes, for its second run. Files have absolute paths.

    Raises:
        OtherVersionError: the version cannot be found, prepared or run, or does not come to rest.
    """
    with stopped_by_sigterm(), tempfile.TemporaryDirectory(prefix="opsdk-") as folder:
        try:
            return _plan_of_other_version(request, state, Path(folder), words=words, changes=changes)
        except OtherVersionError as error:
            raise OtherVersionError(f"--against {request.version}: {error}") from error


def _plan_of_other_version(
    request: VersionRequest, state: ClusterSnapshot, temporary: Path, *, words: Sequence[str], changes: Sequence[str]
) -> OtherPlan:
    other = find_version(request, temporary)
    start, end = temporary / "state.snapshot", temporary / "base.snapshot"
    start.write_bytes(write_snapshot(state, compress=False))
    show_progress(f"{other.name} runs until it has nothing more to do")
    _plan(request, other, "--snapshot", str(start), "--save", str(end), *words)
    show_progress(f"{other.name} is planned")
    planned = _plan(request, other, "--snapshot", str(end), *words, *changes)
    show_progress("")
    return OtherPlan(name=other.name, state=state, base=read_snapshot_file(end), plan=planned)


def _plan(request: VersionRequest, other: OtherVersion, *words: str) -> Plan:
    """Return the plan that ``opsdk plan`` of the other version prints. Raises `OtherVersionError`."""
    command = ("-m", "opsdk.cli", "plan", other.reference, "--output", "json", "--allow-unseen", *words)
    finished = other.run(*command, timeout=request.timeout)
    document = _DOCUMENT.search(finished.output)
    if document is None:
        raise _failed(finished)
    try:
        plan = msgspec.json.decode(document.group(), type=Plan)
    except msgspec.MsgspecError as error:
        raise OtherVersionError(
            f"its opsdk prints a plan that this one cannot read, {error}: install the same opsdk for both"
        ) from error
    if plan.connections:
        raise OtherVersionError(
            f"it tries to reach {', '.join(plan.connections)}: declare doubles in its [tool.opsdk], or pass --doubles "
            "or --allow-host, which are for both versions"
        )
    if reasons := [each.message for each in plan.consequences if each.kind in _RESTLESS]:
        raise _restless(reasons)
    if finished.status == 1:
        # A hot loop ends a run at once: the plan is printed, and there is no end to save.
        loops = [each.message for each in plan.consequences if each.kind is ConsequenceKind.LOOP]
        raise _restless(loops) if loops else _failed(finished)
    return plan


def _failed(finished: FinishedProgram) -> OtherVersionError:
    return OtherVersionError(f"opsdk plan of that version failed: {finished.reason}")


def _restless(reasons: Sequence[str]) -> OtherVersionError:
    return OtherVersionError(
        f"that version does not come to rest, so there is no state to plan from: {'; '.join(reasons)}: plan without "
        "--against, or with a longer --until"
    )
