"""``opsdk generate monitoring``: alerts, recording rules, a dashboard and runbooks of an operator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.builder.operator import Operator
from opsdk.cli.generate.files import check_files, with_hash, write_all
from opsdk.cli.generate.rbac import prepare_offline
from opsdk.cli.loading import load_operator
from opsdk.cli.output import Output, OutputFormat
from opsdk.cli.project import find_project, operator_namespace
from opsdk.errors import UsageError
from opsdk.monitoring.dashboard import dashboard
from opsdk.monitoring.declaration import DEFAULT_RUNBOOKS, MonitoredOperator, Objective
from opsdk.monitoring.rules import prometheus_rule, rule_groups
from opsdk.monitoring.runbooks import runbooks

_COMMAND: Final = "opsdk generate monitoring"
# As every container of `opsdk package` has it. Without an election, its alert has no samples and never fires.
_FLAGS: Final = ("leader-elect",)
_FLEET_METRIC: Final = b"opsdk_fleet_clusters"


def monitoring(
    target: Annotated[
        str, typer.Argument(metavar="[TARGET]", help="MODULE:NAME or FILE.py; default: the operator of the project")
    ] = "",
    *,
    output_dir: Annotated[
        Path, typer.Option("--output-dir", metavar="FOLDER", help="folder of the written files")
    ] = Path("config/monitoring"),
    namespace: Annotated[
        str, typer.Option(help="namespace of the operator; default: that of the project, else any")
    ] = "",
    job: Annotated[
        str, typer.Option(help="label job of its metrics; default: NAME-metrics, as opsdk package has it")
    ] = "",
    objective: Annotated[
        float, typer.Option(metavar="PERCENT", help="percentage of changes of specs that are observed in time")
    ] = 99.0,
    threshold: Annotated[
        float, typer.Option(metavar="SECONDS", help="time until a change of a spec is observed")
    ] = 30.0,
    runbook_url: Annotated[
        str, typer.Option(metavar="URL", help="URL of the folder with the runbooks, for the alerts")
    ] = DEFAULT_RUNBOOKS,
    rule_file: Annotated[
        bool, typer.Option("--rule-file", help="write rules.yaml for rule_files of Prometheus, not a PrometheusRule")
    ] = False,
    flag: Annotated[
        list[str] | None, typer.Option(metavar="FLAG", help="operator flag without dashes; default: leader-elect")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite edited files")] = False,
    check: Annotated[bool, typer.Option("--check", help="write nothing; exit with status 1 if a file differs")] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Write a PrometheusRule or a rule file, a Grafana dashboard, and a runbook for each alert.

    opsdk generate monitoring --output-dir config/monitoring

    opsdk generate monitoring greeter.py --objective 99.9 --threshold 10

    opsdk generate monitoring --rule-file --job shop
    """
    for option, text in (("--namespace", namespace), ("--job", job), ("--runbook-url", runbook_url)):
        if not text.isprintable():
            raise UsageError(f"{option} is {text!r}: write characters that can be printed")
    level = Objective(seconds=threshold, share=round(objective / 100, 9))
    operator = load_operator(target)
    if not target and not namespace:
        namespace = operator_namespace(find_project(Path.cwd()), operator.name)
    declared = monitored_operator(
        operator, namespace=namespace, job=job, runbook_url=runbook_url, objective=level, flags=flag or _FLAGS
    )
    files = monitoring_files(declared, rule_file=rule_file)
    if check:
        expected = {
            output_dir / path: with_hash(text, command=_COMMAND, suffix=Path(path).suffix)
            for path, text in files.items()
        }
        check_files(expected, output)
    else:
        write_all(output_dir, files, command=_COMMAND, output=output, force=force)


def monitored_operator(
    operator: Operator,
    *,
    namespace: str = "",
    job: str = "",
    runbook_url: str = DEFAULT_RUNBOOKS,
    objective: Objective | None = None,
    flags: Iterable[str] = (),
) -> MonitoredOperator:
    """Return what monitoring needs to know of an operator, which is prepared without a connection."""
    prepare_offline(operator, namespace or "default", flags)
    kinds = {name: controller.kind for name, controller in operator.controllers.items()}
    return MonitoredOperator(
        name=operator.name,
        controllers={name: kind.name if kind is not None else "" for name, kind in sorted(kinds.items())},
        webhooks=operator.has_webhooks,
        leader_election=operator.options.leader_election,
        # A setup function adds the fleet to the manager; its metrics show that.
        fleet=asyncio.run(_has_fleet(operator)),
        job=job,
        namespace=namespace,
        runbooks=runbook_url,
        objective=objective or Objective(),
    )


async def _has_fleet(operator: Operator) -> bool:
    # The metrics read the clock of the event loop.
    return _FLEET_METRIC in operator.manager.metrics.expose()


def monitoring_files(operator: MonitoredOperator, *, rule_file: bool = False) -> Mapping[str, str]:
    """Return the text of each file by its path.

    Args:
        operator: what is monitored.
        rule_file: the rules are a rule file of Prometheus instead of a PrometheusRule.
    """
    rules = (
        {"rules.yaml": to_yaml([{"groups": rule_groups(operator)}])}
        if rule_file
        else {"prometheus_rule.yaml": to_yaml([prometheus_rule(operator)])}
    )
    return {
        **rules,
        "dashboard.json": json.dumps(dashboard(operator), indent=2) + "\n",
        **{f"runbooks/{name}": text for name, text in runbooks(operator).items()},
    }
