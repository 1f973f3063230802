"""Plans in tests: what an operator would change in a stored cluster, compared with a stored expectation.

A test says which cluster, and where the expectation is::

    def test_the_plan_for_the_cluster() -> None:
        assert_plan("tests/cluster.snapshot.gz", expected="tests/cluster.plan.txt", operator=make_operator)

The expectation is what ``opsdk plan`` prints, so the diff of a pull request shows how the plan changes.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Sequence
from pathlib import Path

from opsdk.builder.operator import Operator
from opsdk.engine.doubles import DoublesFactory, factory_of
from opsdk.engine.environments import environment_factory
from opsdk.engine.foreign_changes import read_history_file, simulated_controllers
from opsdk.engine.plan import Plan
from opsdk.engine.plan_text import text_lines
from opsdk.engine.planning import make_plan
from opsdk.engine.run import Change, OperatorRun
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.engine.snapshot_file import read_snapshot_file
from opsdk.errors import UsageError
from opsdk.rbac.permissions import RuleSet

__all__ = ["Change", "Plan", "assert_plan"]


def assert_plan(
    snapshot: ClusterSnapshot | Path | str,
    *,
    operator: Callable[[], Operator] | None = None,
    doubles: DoublesFactory | None = None,
    expected: Path | str | None = None,
    changes: Sequence[Change] = (),
    history: Path | str | None = None,
    namespace: str = "default",
    until: float = 86_400.0,
    rules: RuleSet | None = None,
    kubernetes: str | None = None,
) -> Plan:
    """Check what an operator would change in a cluster, and return the plan. It runs in virtual time.

    A missing file of the expectation is written, and the assertion fails once: read the file, and commit it. To accept
    another plan, delete the file and run the test twice.

    Args:
        snapshot: the cluster, or the file that ``opsdk snapshot`` wrote.
        operator: creates the operator; not with `doubles`.
        doubles: creates the doubles of its external systems, and with them the operator.
        expected: the file with the plan as ``opsdk plan`` prints it; None compares nothing.
        changes: of the user, such as an object to create; each is made when the operator has nothing more to do.
        history: the file with what others did in a recording, see ``opsdk replay --cut``; each change is made at its
            time after the operator's start. None for no changes.
        namespace: of the operator.
        until: virtual seconds, after the last change of the history, until the plan ends.
        rules: the permissions of the operator; None for those that it declares.
        kubernetes: the version of the local API server, such as ``1.35``; None for the newest recorded.

    Raises:
        AssertionError: the plan differs, or does not show everything: the operator tried to reach an external system,
            or reads a kind that the snapshot lacks.
        UsageError: envtest is not installed, an event loop runs already, or not one of `operator` and `doubles` is set.
        SnapshotError: the file of the snapshot cannot be read.
        HistoryError: the file of the history cannot be read.
        ConfigError: no local server serves that version.
    """
    factory = factory_of(operator, doubles)
    _refuse_running_loop()
    state = snapshot if isinstance(snapshot, ClusterSnapshot) else read_snapshot_file(Path(snapshot))
    played = read_history_file(Path(history)) if history is not None else ()
    planned = factory(state).operator()
    run = OperatorRun(
        snapshot=state,
        operator=lambda: planned,
        environment=environment_factory(controllers=simulated_controllers(played), kubernetes=kubernetes),
        namespace=namespace,
        history=played,
        changes=changes,
        horizon=until,
        rules=rules,
    )
    plan = make_plan(run.execute(), planned, namespace=namespace)
    _compare(plan, None if expected is None else Path(expected))
    return plan


def _compare(plan: Plan, expected: Path | None) -> None:
    text = "".join(f"{line.text}\n" for line in text_lines(plan))
    if gaps := [*plan.connections, *map(str, plan.blind)]:
        raise AssertionError(f"the plan does not show everything: {'; '.join(gaps)}\n\n{text}")
    if expected is None:
        return
    if not expected.exists():
        expected.write_text(text, encoding="utf-8")
        raise AssertionError(f"{expected} did not exist. It has the plan now: read it, and commit it\n\n{text}")
    stored = expected.read_text(encoding="utf-8")
    if stored != text:
        lines = difflib.unified_diff(stored.splitlines(), text.splitlines(), str(expected), "this plan", lineterm="")
        raise AssertionError("\n".join([f"the plan is not that of {expected}; delete the file to accept it", *lines]))


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("a plan runs on a loop of its own: call assert_plan from a test that is not async")
