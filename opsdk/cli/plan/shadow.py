"""``opsdk plan --shadow``: what this version decides otherwise than its leader, while both see the same cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import msgspec

from opsdk.cli.exit_status import ExitStatus
from opsdk.cli.output import print_json
from opsdk.cli.plan.options import PlanFormat
from opsdk.cli.plan.printing import print_lines
from opsdk.cli.plan.request import ClusterChoice, OperatorChoice
from opsdk.engine.environments import EnvironmentFactory
from opsdk.engine.shadow.outcome import (
    ShadowOutcome,
    disagreement_lines,
    markdown_lines,
    summary_lines,
)
from opsdk.engine.shadow.run import ShadowRun
from opsdk.errors import UsageError
from opsdk.manager.signals import stop_on_signals

__all__ = ["check_shadow_options", "compare_with_leader", "shadow_run", "shadow_status"]


def check_shadow_options(**others: object) -> None:
    """Refuse options that ask about something else than a running leader. Raises `UsageError`."""
    for name, value in others.items():
        if value:
            raise UsageError(
                f"--shadow shows what happens in the cluster by itself: leave out --{name.replace('_', '-')}"
            )


def shadow_run(
    chosen: OperatorChoice,
    cluster: ClusterChoice,
    environment: EnvironmentFactory,
    *,
    leader: Sequence[str],
    wait: float,
) -> ShadowRun:
    """Return the comparison of an operator with its leader, from the present state of the cluster on.

    Args:
        chosen: the operator.
        cluster: where its leader runs.
        environment: of the operator; without controllers, which the cluster has.
        leader: field managers of the leader, beside the operator's own one.
        wait: seconds that one side may be later than the other.
    """
    state = cluster.read(chosen.read_rules, secret_values=True)
    return ShadowRun(
        snapshot=state,
        operator=chosen.on_doubles(state),
        environment=environment,
        cluster=cluster.config,
        leader=leader,
        namespace=chosen.namespace,
        wait=wait,
        seconds=chosen.seconds,
        allowed_hosts=chosen.allowed_hosts,
        rules=chosen.rules,
    )


def compare_with_leader(run: ShadowRun, output: PlanFormat) -> ShadowOutcome:
    """Run a comparison until its time has passed, or until SIGINT or SIGTERM, and print it.

    Text is printed when a disagreement is found; the other formats at the end.
    """

    def begun() -> None:
        print(f"opsdk: {run.operator.name} runs beside its leader, and writes nothing; Ctrl-C ends it", file=sys.stderr)

    run.begun = begun
    if output is PlanFormat.TEXT:
        run.report = lambda disagreement: print_lines(disagreement_lines(disagreement))
    outcome = asyncio.run(_until_signal(run))
    if output is PlanFormat.JSON:
        print_json(msgspec.to_builtins(outcome))
    elif output is PlanFormat.MARKDOWN:
        print("\n".join(markdown_lines(outcome)))
    else:
        print_lines(summary_lines(outcome))
    return outcome


async def _until_signal(run: ShadowRun) -> ShadowOutcome:
    stop = asyncio.Event()
    with stop_on_signals(stop.set):
        return await run.run(stop)


def shadow_status(outcome: ShadowOutcome, *, allow_unseen: bool) -> int:
    """Return the exit status: 1 if the comparison failed or could not see everything, 2 for disagreements, else 0."""
    if outcome.failure or outcome.connections or (outcome.blind and not allow_unseen):
        return ExitStatus.ERROR
    return ExitStatus.FOUND if outcome.disagreements or outcome.refused or outcome.failing else ExitStatus.SUCCESS
