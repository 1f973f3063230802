"""``opsdk plan`` and ``opsdk snapshot``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from msgspec.structs import replace
from rich.console import Console

from opsdk.base.options import Options
from opsdk.builder.operator import Operator
from opsdk.cli.loading import load_operator
from opsdk.cli.output import print_json, show_progress
from opsdk.cli.plan import options
from opsdk.cli.plan.against import OtherPlan, change_words, plan_of_other_version, run_words
from opsdk.cli.plan.inputs import changes_of, kinds_of_changes, operator_on_doubles, planned_operator
from opsdk.cli.plan.options import PlanFormat
from opsdk.cli.plan.versions import VersionRequest
from opsdk.cli.project import find_project
from opsdk.engine.environments import environment_factory
from opsdk.engine.plan import ConsequenceKind, Plan
from opsdk.engine.plan_text import markdown_lines, text_lines
from opsdk.engine.planning import make_plan
from opsdk.engine.run import OperatorRun, RunOutcome
from opsdk.engine.snapshot import ClusterSnapshot, SnapshotKind, write_snapshot
from opsdk.engine.snapshot_file import read_snapshot_file
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.errors import UsageError
from opsdk.rbac.permissions import ANY, Permission, RuleSet
from opsdk.rest.config import Config, Impersonate
from opsdk.rest.load import load_config

_CHANGES: Final = 2
_DANGER: Final = 3


def snapshot(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the file to write, such as cluster.snapshot.gz")],
    operator: options.OperatorArgument = "",
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
    rules = None if everything else _rules(load_operator(operator))
    config = load_config(kubeconfig=kubeconfig, context=context or None)
    taken = asyncio.run(take_snapshot(_as(config, user), rules=rules, secret_values=secrets, progress=_progress))
    file.write_bytes(write_snapshot(taken))
    print(f"wrote {file}: {len(taken.objects)} objects of {len(taken.kinds)} kinds")
    for unseen in taken.unseen:
        print(f"opsdk: not read: {unseen}", file=sys.stderr)


def plan(
    operator: options.OperatorArgument = "",
    *,
    snapshot: options.SnapshotFile = None,
    against: options.Against = "",
    against_timeout: options.AgainstTimeout = 600,
    file: options.Files = None,
    delete: options.Deletions = None,
    scale: options.Scales = None,
    flags: options.Flags = None,
    doubles: options.DoublesName = "",
    until: options.Until = 86_400,
    allow_host: options.AllowedHosts = None,
    allow_unseen: options.AllowUnseen = False,
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

    Exits with status 0 if nothing changes, 2 if something does, 3 if a consequence is dangerous, and 1 if the plan
    could not see everything, or failed.

    opsdk plan

    opsdk plan --snapshot cluster.snapshot.gz -f new-site.yaml

    opsdk plan --against git:main

    opsdk plan --delete websites.example.com/shop/site --output markdown
    """
    environment = environment_factory()
    target = planned_operator(operator, flags or ())
    changed = file or (), delete or (), scale or ()
    source = _StateSource(file=snapshot, kubeconfig=kubeconfig, context=context, user=user)
    state = _read_state(source, target, kinds_of_changes(*changed))
    changes, other = changes_of(*changed), None
    if against:
        request = VersionRequest(version=against, reference=operator, timeout=against_timeout)
        words = run_words(until, allow_host or (), flags or (), doubles, all_permissions=all_permissions)
        other = plan_of_other_version(request, state, words=words, changes=change_words(*changed))
    on_doubles = operator_on_doubles(target, operator, doubles, flags or (), other.base if other else state)
    run = OperatorRun(
        snapshot=other.base if other else state,
        operator=lambda: on_doubles,
        environment=environment,
        namespace=_namespace(target),
        changes=changes,
        horizon=until,
        allowed_hosts=allow_host or (),
        rules=RuleSet([Permission(ANY, ANY, ANY)]) if all_permissions else None,
        keep_end=save is not None,
    )
    raise typer.Exit(_status(_execute(run, target, other, save, output), allow_unseen=allow_unseen, fail_on=fail_on))


def _execute(
    run: OperatorRun, operator: Operator, other: OtherPlan | None, save: Path | None, output: PlanFormat
) -> Plan:
    """Run the operator, print the plan, and write the state at the end."""
    outcome = run.execute()
    planned = make_plan(run.snapshot, outcome, operator, namespace=run.namespace)
    if other is not None:
        planned = other.subtracted_from(planned)
    _print(planned, output)
    if save is not None:
        _save(save, outcome)
    return planned


# ------------------------------------------------------------------ the cluster
class _StateSource(Options, frozen=True, kw_only=True):
    """Where the state of a plan comes from: a file, or a cluster as a user."""

    file: Path | None
    kubeconfig: Path | None
    context: str
    user: str


def _read_state(source: _StateSource, operator: Operator, names: Sequence[str]) -> ClusterSnapshot:
    """Return the snapshot of a file, or of the cluster with the kinds of the operator and of these names."""
    if source.file is not None:
        return read_snapshot_file(source.file)
    config = _as(load_config(kubeconfig=source.kubeconfig, context=source.context or None), source.user)
    return asyncio.run(take_snapshot(config, rules=_rules(operator), names=names, progress=_progress))


def _rules(operator: Operator) -> RuleSet:
    return operator.rules(namespace=_namespace(operator))


def _namespace(operator: Operator) -> str:
    project = find_project(Path.cwd())
    return operator.options.namespace or (project.namespace if project is not None else "") or "default"


def _as(config: Config, user: str) -> Config:
    return replace(config, impersonate=Impersonate(user=user)) if user else config


def _progress(kind: SnapshotKind) -> None:
    """Show how far the snapshot is, on a terminal."""
    if kind.count:
        show_progress(f"read {kind.count} {kind.resource}")


# ------------------------------------------------------------------ output
def _print(planned: Plan, output: PlanFormat) -> None:
    if output is PlanFormat.JSON:
        print_json(msgspec.to_builtins(planned))
    elif output is PlanFormat.MARKDOWN:
        print("\n".join(markdown_lines(planned)))
    else:
        console = Console(soft_wrap=True, highlight=False)
        for line in text_lines(planned):
            console.print(line.text, style=line.style, markup=False)


def _save(path: Path, outcome: RunOutcome) -> None:
    if outcome.end is None:
        raise UsageError(f"{path} is not written: the run has no end state, because the operator did not come to rest")
    path.write_bytes(write_snapshot(outcome.end))


def _status(planned: Plan, *, allow_unseen: bool, fail_on: Sequence[ConsequenceKind] | None) -> int:
    """Return the exit status."""
    if planned.connections or (planned.blind and not allow_unseen):
        return 1
    if any(each.kind in fail_on for each in planned.consequences) if fail_on else planned.is_dangerous:
        return _DANGER
    return 0 if planned.is_empty else _CHANGES
