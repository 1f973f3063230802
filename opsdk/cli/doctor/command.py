"""``opsdk doctor`` and ``opsdk cleanup``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from opsdk.api.rbac.v1 import ClusterRole
from opsdk.apimachinery.object import convert
from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import read_documents
from opsdk.cli.consent import DryRunOption, YesOption
from opsdk.cli.doctor.examine import Removal, clean, examine
from opsdk.cli.doctor.finalizers import removals_of, remove_finalizers
from opsdk.cli.doctor.findings import Finding, Level, worst
from opsdk.cli.loading import OperatorArgument, load_operator
from opsdk.cli.output import Output, OutputFormat, print_json, print_table
from opsdk.cli.project import find_project
from opsdk.cli.target import Attempt, Consent, ContextOption, KubeconfigOption, TargetCluster
from opsdk.errors import UsageError
from opsdk.lifecycle.orphans import DrainResult
from opsdk.rbac.permissions import RuleSet
from opsdk.structured_merge.value import JsonValue

_STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}


def doctor(
    operator: OperatorArgument = "",
    *,
    namespace: Annotated[
        str, typer.Option(help="namespace of the operator; default: the one in pyproject.toml, or default")
    ] = "",
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="also report finalizers without a controller; reads all objects")
    ] = False,
    recorded: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="roles of observed_manifests; report granted permissions beyond them"),
    ] = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Check a cluster for problems: RBAC, CRDs, webhooks, policies, finalizers, leader election.

    Exits with status 1 if there is an error. If the operator is deployed, its service account's roles are compared with
    the permissions that it declares, or that tests recorded.

    opsdk doctor

    opsdk doctor website.operator:make_operator --namespace website-system --output json
    """
    target = load_operator(operator)
    config = TargetCluster(context, kubeconfig).to_read()
    used = recorded_rules(recorded) if recorded is not None else None
    findings = asyncio.run(examine(target, config, namespace=namespace or _namespace(), orphans=orphans, recorded=used))
    if output is OutputFormat.JSON:
        print_json([asdict(finding) for finding in findings])
    else:
        _print(findings)
    raise typer.Exit(int(worst(findings) is Level.ERROR))


def cleanup(
    operator: OperatorArgument = "",
    *,
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    definitions: Annotated[
        bool, typer.Option("--definitions", help="also delete the CRDs and all their objects")
    ] = False,
    finalizers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="remove only these finalizers, without an operator; end a prefix with a slash"
        ),
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="kinds for --finalizers, such as sites.example.com; default: all")
    ] = None,
    namespace: Annotated[str, typer.Option(help="namespace for --finalizers; default: all")] = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Remove the finalizers, webhook configurations and admission policies of a removed operator.

    Without the operator, its finalizers block the deletion of objects and namespaces, and its webhooks reject requests.
    Stop the operator first.

    opsdk cleanup --dry-run

    opsdk cleanup --yes --definitions

    opsdk cleanup --finalizers controller.cattle.io/dns --kind sites.example.com --yes
    """
    consent = Consent.of(TargetCluster(context, kubeconfig), yes=yes, dry_run=dry_run)
    if not finalizers and (kind or namespace):
        raise UsageError("--kind and --namespace require --finalizers")
    if finalizers and (operator or definitions):
        raise UsageError("--finalizers is mutually exclusive with the operator and --definitions")
    # Load the operator before the configuration: outside a project, report the missing operator first.
    target = load_operator(operator) if not finalizers else None

    def run(attempt: Attempt) -> DrainResult:
        drained, config, dry_run = DrainResult(), attempt.config, attempt.dry_run
        if target is not None:
            removals = asyncio.run(clean(target, config, definitions=definitions, dry_run=dry_run))
        else:
            names, kinds = finalizers or (), kind or ()
            drained = asyncio.run(remove_finalizers(config, names, kinds=kinds, namespace=namespace, dry_run=dry_run))
            removals = removals_of(drained)
        _print_removals(removals, attempt, output)
        return drained

    what = f"remove what {target.name} left" if target is not None else f"remove {', '.join(finalizers or ())}"
    drained = consent.change(run, what=what, namespace=namespace or None)
    for gvk, error in drained.problems:
        print(f"opsdk: {gvk.group_kind}: {error}", file=sys.stderr)
    if drained.problems:
        raise typer.Exit(1)


def _print_removals(removals: Sequence[Removal], attempt: Attempt, output: OutputFormat) -> None:
    lines = [f"{each.subject}: {'would ' if attempt.dry_run else ''}{each.action}" for each in removals]
    rows: list[JsonValue] = [{**asdict(each), "done": not attempt.dry_run} for each in removals]
    attempt.print(output, rows, lines or ["nothing to remove"])


def recorded_rules(path: Path) -> RuleSet:
    """Return the permissions of the roles in a file. Raises `UsageError` if it has none."""
    rules = RuleSet()
    try:
        for document in read_documents(path.read_bytes()):
            if isinstance(document, dict) and document.get("kind") in ("Role", "ClusterRole"):
                role = convert({**document, "kind": "ClusterRole"}, ClusterRole)
                rules |= RuleSet.from_policy_rules(role.rules, role.metadata.namespace)
    except (OSError, SyntaxProblemError, msgspec.ValidationError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not rules:
        raise UsageError(f"{path} has no roles with rules: write it with opsdk.testing.rules.observed_manifests")
    return rules


def _namespace() -> str:
    project = find_project(Path.cwd())
    return (project.namespace if project is not None else "") or "default"


def _print(findings: list[Finding]) -> None:
    table = Table("", "check", "object", "finding", box=None, pad_edge=False)
    for finding in findings:
        text = Text(finding.message)
        if finding.advice:
            text.append(f"\n{finding.advice}", style="dim")
        level = Text(finding.level.value, style=_STYLES[finding.level])
        table.add_row(level, Text(finding.check), Text(finding.subject), text)
    print_table(table)
