"""``opsdk plan`` and ``opsdk snapshot``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from opsdk.cli.loading import OperatorArgument
from opsdk.cli.plan import options
from opsdk.cli.plan.against import OtherPlan, plan_of_other_version
from opsdk.cli.plan.inputs import UserChanges
from opsdk.cli.plan.options import PlanFormat
from opsdk.cli.plan.printing import plan_status, print_plan
from opsdk.cli.plan.request import ClusterChoice, OperatorChoice
from opsdk.cli.plan.shadow import check_shadow_options, compare_with_leader, shadow_run, shadow_status
from opsdk.cli.plan.versions import VersionRequest
from opsdk.cli.target import KubernetesOption
from opsdk.engine.environments import EnvironmentFactory, environment_factory
from opsdk.engine.plan import Plan
from opsdk.engine.planning import make_plan
from opsdk.engine.run import Change, OperatorRun, RunOutcome
from opsdk.engine.snapshot import ClusterSnapshot, write_snapshot
from opsdk.engine.snapshot_file import read_snapshot_file
from opsdk.errors import UsageError


def snapshot(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the file to write, such as cluster.snapshot.gz")],
    operator: OperatorArgument = "",
    *,
    everything: Annotated[bool, typer.Option("--all", help="read every kind, not only those of an operator")] = False,
    secrets: Annotated[bool, typer.Option("--secrets", help="write the values of Secrets, not their digests")] = False,
    user: options.User = "",
    context: options.Context = "",
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Write the objects of a cluster that an operator can see into a file. Sends get and list requests only.

    opsdk snapshot cluster.snapshot.gz

    opsdk snapshot cluster.snapshot.gz greeter.py --as system:serviceaccount:default:greeter

    opsdk snapshot cluster.snapshot.gz --all
    """
    rules = None if everything else OperatorChoice(reference=operator).declared_rules
    cluster = ClusterChoice(kubeconfig=kubeconfig, context=context, user=user)
    taken = cluster.read(rules, secret_values=secrets)
    file.write_bytes(write_snapshot(taken))
    print(f"wrote {file}: {len(taken.objects)} objects of {len(taken.kinds)} kinds")
    for unseen in taken.unseen:
        print(f"opsdk: not read: {unseen}", file=sys.stderr)


def plan(
    operator: OperatorArgument = "",
    *,
    snapshot: options.SnapshotFile = None,
    against: options.Against = "",
    against_timeout: options.AgainstTimeout = 600,
    shadow: options.Shadow = False,
    leader: options.Leader = None,
    wait: options.Wait = 10,
    file: options.Files = None,
    delete: options.Deletions = None,
    scale: options.Scales = None,
    flags: options.Flags = None,
    doubles: options.DoublesName = "",
    until: options.Until = 86_400,
    allow_host: options.AllowedHosts = None,
    allow_unseen: options.AllowUnseen = False,
    kubernetes: KubernetesOption = None,
    all_permissions: options.AllPermissions = False,
    fail_on: options.FailOn = None,
    save: options.Save = None,
    user: options.User = "",
    context: options.Context = "",
    kubeconfig: options.Kubeconfig = None,
    output: options.Output = PlanFormat.TEXT,
) -> None:
    """Print what the operator would change in a cluster, and what follows from it. Nothing is written.

    The operator runs on a local API server with the objects of the cluster, until it has nothing more to do.

    Exits with status 0 if nothing changes, 2 if something does, 3 if it is dangerous, 1 if it failed or saw too little.

    opsdk plan

    opsdk plan --snapshot cluster.snapshot.gz -f new-site.yaml

    opsdk plan --against git:main

    opsdk plan --delete websites.example.com/shop/site --output markdown

    opsdk plan --shadow --until 600
    """
    chosen = OperatorChoice(
        reference=operator, flags=flags or (), doubles=doubles, all_permissions=all_permissions, seconds=until,
        allowed_hosts=allow_host or (), kubernetes=kubernetes,
    )  # fmt: skip
    cluster = ClusterChoice(kubeconfig=kubeconfig, context=context, user=user)
    environment = environment_factory(controllers="none" if shadow else "cluster", kubernetes=kubernetes)
    if shadow:
        check_shadow_options(
            snapshot=snapshot, against=against, file=file, delete=delete, scale=scale, save=save, fail_on=fail_on
        )
        compared = shadow_run(chosen, cluster, environment, leader=leader or (), wait=wait)
        raise typer.Exit(shadow_status(compare_with_leader(compared, output), allow_unseen=allow_unseen))
    changes = UserChanges(files=file or (), deletions=delete or (), scales=scale or ())
    state = read_snapshot_file(snapshot) if snapshot else cluster.read(chosen.read_rules, names=changes.kinds)
    request = VersionRequest(version=against, reference=operator, timeout=against_timeout)
    other = plan_of_other_version(request, state, words=chosen.words, changes=changes.words) if against else None
    planned = _execute(chosen, state, changes.read(), other=other, environment=environment, save=save, output=output)
    raise typer.Exit(plan_status(planned, allow_unseen=allow_unseen, fail_on=fail_on or ()))


def _execute(
    chosen: OperatorChoice,
    state: ClusterSnapshot,
    changes: Sequence[Change],
    *,
    other: OtherPlan | None,
    environment: EnvironmentFactory,
    save: Path | None,
    output: PlanFormat,
) -> Plan:
    """Run the operator, print the plan, and write the state at the end."""
    start = other.base if other is not None else state
    on_doubles = chosen.on_doubles(start)
    run = OperatorRun(
        snapshot=start,
        operator=lambda: on_doubles,
        environment=environment,
        namespace=chosen.namespace,
        changes=changes,
        horizon=chosen.seconds,
        allowed_hosts=chosen.allowed_hosts,
        rules=chosen.rules,
        keep_end=save is not None,
    )
    outcome = run.execute()
    planned = make_plan(outcome, chosen.operator, namespace=run.namespace)
    if other is not None:
        planned = other.subtracted_from(planned)
    print_plan(planned, output)
    if save is not None:
        _save(save, outcome)
    return planned


# ------------------------------------------------------------------ output
def _save(path: Path, outcome: RunOutcome) -> None:
    if outcome.end is None:
        raise UsageError(f"{path} is not written: the run has no end state, because the operator did not come to rest")
    path.write_bytes(write_snapshot(outcome.end))
