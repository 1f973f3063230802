"""A report names the code that wrote what it shows, and what that code had read."""

from __future__ import annotations

from pathlib import Path

import planted.shapes
import pytest
from planted.table import Planted

from opsdk.cli.verify.inputs import OperatorInputs
from opsdk.engine.world.outcome import Outcome
from opsdk.verification.causes import cause_lines, causes_of
from opsdk.verification.disturbances import Disturbance, DisturbanceKind
from opsdk.verification.guided_run import run_guided

LINES = Path(planted.shapes.__file__).read_text().splitlines()


def run(name: str, disturbance: Disturbance | None = None, *, workload: int = 0, with_senders: bool = True) -> Outcome:
    """A run of a planted operator: its object is created, changed and deleted."""
    (reference,) = Planted(name, "shapes").arguments(repaired=False)
    verification = OperatorInputs(operator=reference, operations=8).generated()
    return run_guided(verification.declared, verification.workloads[workload], disturbance, with_senders=with_senders)


def test_a_cause_is_the_line_of_the_author_and_what_it_had_read() -> None:
    """With the version in the cache, and that of the server where it differs."""
    crash = Disturbance(kind=DisturbanceKind.CRASH_AFTER, number=1)
    outcome = run("early_revision", crash)
    disturbed, last = causes_of(outcome, ["state at rest: configmaps default/example exists 0 times"], crash)
    function = "planted.shapes:early_revision.<locals>.reconcile"
    assert [each.sender.function for each in (disturbed, last)] == [function, function]
    assert "ctx.status(team)" in LINES[disturbed.sender.line - 1]
    assert "ctx.apply(" in LINES[last.sender.line - 1]
    assert last.request == "PATCH /api/v1/namespaces/default/configmaps/example"
    team, config_map = last.sender.reads
    assert team.startswith("Team default/example at ")
    assert " from the cache; the server had " in team
    assert config_map == "ConfigMap default/example (absent) from the cache"
    lines = list(cause_lines([disturbed, last]))
    assert lines[1].startswith("  the disturbed write: PATCH ")
    assert lines[2].endswith(f"shapes.py:{disturbed.sender.line})")


def test_children_that_are_applied_at_once_have_the_line_that_applies_them() -> None:
    """They are written by tasks of opsdk, for which the author's line waits."""
    senders = run("unpruned_set", workload=1).senders
    assert senders
    assert all("apply_all" in LINES[each.line - 1] for each in senders.values())


def test_a_run_that_is_not_reported_looks_for_no_code() -> None:
    """The walk through all tasks costs nothing there, and changes nothing where it is done."""
    one, other = run("early_revision", with_senders=False), run("early_revision")
    assert not one.senders
    assert [str(each)[:60] for each in one.exchanges] == [str(each)[:60] for each in other.exchanges]


@pytest.mark.parametrize("violations", [[], ["calm: it goes on writing"], ["state at rest: pods default/a exists"]])
def test_without_a_named_object_the_last_write_counts(violations: list[str]) -> None:
    """There is always a line to begin with."""
    outcome = run("early_revision")
    (last,) = causes_of(outcome, violations)
    assert last.role == "the last write"
    assert last.sender == outcome.senders[max(outcome.senders)]
    assert causes_of(Outcome(), violations) == []
