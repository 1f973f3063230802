"""``opsdk deploy`` and ``opsdk undeploy``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Self

import typer

from opsdk.apimachinery.object import TypedObject
from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.cli.consent import DryRunOption, YesOption
from opsdk.cli.deploy.apply import Deployer
from opsdk.cli.deploy.permissions import deploy_rules, grant_rules, undeploy_rules
from opsdk.cli.deploy.remove import Remover
from opsdk.cli.deploy.steps import DeployStep
from opsdk.cli.output import Output, OutputFormat, print_json
from opsdk.cli.package.inputs import PackageInputs, package_inputs
from opsdk.cli.package.tree import installed_objects
from opsdk.cli.target import Attempt, Consent, ContextOption, KubeconfigOption, TargetCluster
from opsdk.cluster.cluster import Cluster
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject

_Namespace = Annotated[str, typer.Option(help="namespace of the operator; default: the one in pyproject.toml")]
_Timeout = Annotated[float, typer.Option(metavar="SECONDS", help="seconds to wait")]


def deploy(
    *,
    image: Annotated[str, typer.Option(help="container image; default: the one in pyproject.toml")] = "",
    namespace: _Namespace = "",
    timeout: _Timeout = 300.0,
    force: Annotated[
        bool, typer.Option("--force", help="take over objects and fields that others created or changed")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    print_role: Annotated[
        bool, typer.Option("--print-role", help="print the roles of the user that deploys, and exit")
    ] = False,
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Apply CRDs, RBAC, Deployment, Services, policies and webhooks of the operator, and wait until they work.

    Exits with status 1 if the operator does not become available, and prints why.

    opsdk deploy --image registry.example.com/demo:1.0.0 --yes

    opsdk deploy --dry-run
    """
    consent = Consent.of(TargetCluster(context, kubeconfig), yes=yes, dry_run=dry_run or print_role)
    parts = package_inputs(namespace=namespace, image=image)
    if print_role:
        print(to_yaml(deployer_roles(parts)), end="")
        return

    def run(attempt: Attempt) -> list[str]:
        with _StepLog(output, attempt) as log:
            make = partial(
                Deployer,
                operator=parts.workload.name,
                report=log.step,
                progress=log.progress,
                force=force,
                dry_run=attempt.dry_run,
                timeout=timeout,
            )
            return asyncio.run(_deploy(attempt.config, parts, make))

    problems = consent.change(run, what=f"install {parts.workload.name}", namespace=parts.workload.namespace)
    if problems:
        print("opsdk: " + "\n".join(problems), file=sys.stderr)
        raise typer.Exit(1)


def undeploy(
    *,
    namespace: _Namespace = "",
    delete_objects: Annotated[
        bool, typer.Option("--delete-objects", help="first delete the custom objects, and wait for their finalizers")
    ] = False,
    timeout: _Timeout = 300.0,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Delete what opsdk deploy applied: webhooks, Deployment, policies, Services, RBAC, namespace, CRDs.

    Objects that opsdk deploy did not create stay. If custom objects exist, nothing is deleted without --delete-objects.

    opsdk undeploy --dry-run

    opsdk undeploy --delete-objects --yes
    """
    consent = Consent.of(TargetCluster(context, kubeconfig), yes=yes, dry_run=dry_run)
    # The image does not matter for a deletion.
    parts = package_inputs(namespace=namespace, image="-")

    def run(attempt: Attempt) -> None:
        with _StepLog(output, attempt) as log:
            make = partial(
                Remover,
                operator=parts.workload.name,
                report=log.step,
                delete_objects=delete_objects,
                dry_run=attempt.dry_run,
                timeout=timeout,
            )
            asyncio.run(_undeploy(attempt.config, parts, make))

    consent.change(run, what=f"remove {parts.workload.name}", namespace=parts.workload.namespace)


class _StepLog:
    """Prints steps when they happen, or as one JSON document at the end, also after an error."""

    def __init__(self, output: OutputFormat, attempt: Attempt) -> None:
        self._output = OutputFormat.TEXT if attempt.is_preview else output
        self._stream = sys.stderr if attempt.is_preview else sys.stdout
        self._steps: list[DeployStep] = []

    def step(self, step: DeployStep) -> None:
        self._steps.append(step)
        if self._output is OutputFormat.TEXT:
            print(step, file=self._stream, flush=True)

    def progress(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._output is OutputFormat.JSON:
            print_json([{**asdict(step), "changes": list(step.changes)} for step in self._steps])


def _objects(parts: PackageInputs) -> list[JsonObject]:
    files = installed_objects(parts.workload, parts.definitions, parts.rbac, parts.configurations, parts.policies)
    return [tree for objects in files.values() for tree in objects]


def deployer_roles(parts: PackageInputs) -> Sequence[TypedObject]:
    """Return a service account that may deploy and undeploy, with its namespace and its roles."""
    objects = _objects(parts)
    rules = deploy_rules(objects) | grant_rules(objects) | undeploy_rules(objects, delete_objects=True)
    name = f"{parts.workload.name}-deployer"
    return manifests(rules, RbacNames(name=name, namespace=parts.workload.namespace, create_namespace=True))


async def _deploy(config: RestConfig, parts: PackageInputs, make: Callable[[Cluster], Deployer]) -> list[str]:
    async with Cluster(config) as cluster:
        return await make(cluster).deploy(_objects(parts), parts.rules)


async def _undeploy(config: RestConfig, parts: PackageInputs, make: Callable[[Cluster], Remover]) -> None:
    async with Cluster(config) as cluster:
        await make(cluster).undeploy(_objects(parts))
