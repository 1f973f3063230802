"""The command tree of ``opsdk``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import typer

from opsdk.cli.lazy import LazyCommand, LazyGroup

_GENERATE = "opsdk.cli.generate.command"
_PACKAGE = "opsdk.cli.package.command"
_ALL_SUMMARY = "Write all generated files; the same as manifests."


_FIRST: Final[Mapping[str, Sequence[str]]] = {
    "Write": ("init", "create", "dev"),
    "Test": ("verify", "plan", "replay"),
    "Ship": ("generate", "package", "deploy"),
    "Run": ("top", "why", "doctor"),
}
"""What ``opsdk --help`` describes: at most twelve commands."""
_MORE: Final[Mapping[str, Sequence[str]]] = {
    "Write": ("run", "validate", "update", "apiserver", "migrate"),
    "Test": ("snapshot",),
    "Ship": ("undeploy", "cleanup", "canary"),
    "Run": ("pause", "resume", "reconcile", "norman"),
}
"""What ``opsdk more`` describes."""


class _OpsdkGroup(LazyGroup):
    sections = _FIRST
    more_sections = _MORE
    lazy_commands: ClassVar = {
        "init": LazyCommand(
            target="opsdk.cli.scaffold.commands:init",
            summary="Create a project with an operator without reconcilers.",
        ),
        "update": LazyCommand(
            target="opsdk.cli.scaffold.update:update",
            summary="Bring the templates of a newer opsdk into a project.",
        ),
        "run": LazyCommand(
            target="opsdk.cli.run:run",
            summary="Run an operator until SIGTERM.",
            epilog="Put the operator's flags after --; each flag also has an environment variable: "
            "opsdk run greeter.py -- --help",
        ),
        "dev": LazyCommand(
            target="opsdk.cli.dev.command:dev",
            summary="Run an operator and reload it when a file changes.",
            epilog="In another shell: export KUBECONFIG=.opsdk/kubeconfig, then kubectl.",
        ),
        "doctor": LazyCommand(
            target="opsdk.cli.doctor.command:doctor",
            summary="Check a cluster for problems of an operator.",
        ),
        "cleanup": LazyCommand(
            target="opsdk.cli.doctor.command:cleanup",
            summary="Remove finalizers, webhooks and policies of a removed operator.",
        ),
        "package": LazyCommand(
            target=f"{_PACKAGE}:package",
            summary="Package the operator: image, YAML, kustomize, Helm, OLM.",
        ),
        "validate": LazyCommand(
            target="opsdk.cli.validate.command:validate",
            summary="Validate objects in files, without a cluster.",
        ),
        "deploy": LazyCommand(
            target="opsdk.cli.deploy.command:deploy",
            summary="Install the operator in a cluster, and wait for it.",
        ),
        "undeploy": LazyCommand(
            target="opsdk.cli.deploy.command:undeploy",
            summary="Remove what opsdk deploy installed.",
        ),
        "plan": LazyCommand(
            target="opsdk.cli.plan.command:plan",
            summary="Print what the operator would change in a cluster.",
            epilog="Requires the extra envtest: pip install 'opsdk[cli,envtest]'",
        ),
        "snapshot": LazyCommand(
            target="opsdk.cli.plan.command:snapshot",
            summary="Write the objects of a cluster into a file.",
        ),
        "verify": LazyCommand(
            target="opsdk.cli.verify.command:verify",
            summary="Attack the operator at each place of many short runs.",
            epilog="Requires the extra envtest: pip install 'opsdk[cli,envtest]'",
        ),
        "replay": LazyCommand(
            target="opsdk.cli.replay.command:replay",
            summary="Run an operator again from its recording.",
            epilog="An operator records itself with --recording-dir. Its status is 3 if a request differs.",
        ),
        "apiserver": LazyCommand(
            target="opsdk.cli.apiserver:apiserver",
            summary="Run a local Kubernetes API server until SIGTERM.",
            epilog="Put more options after --; python -m envtest serve --help lists them.",
        ),
        "norman": LazyCommand(
            target="opsdk.cli.norman:norman",
            summary="Serve a REST API and a web page over the kinds of a cluster.",
            epilog="Requires the extra norman: pip install 'opsdk[cli,envtest,norman]'",
        ),
        "pause": LazyCommand(
            target="opsdk.cli.pause:pause",
            summary="Pause objects, until a time or until they are resumed.",
        ),
        "resume": LazyCommand(
            target="opsdk.cli.pause:resume",
            summary="End the pause of objects.",
        ),
        "reconcile": LazyCommand(
            target="opsdk.cli.pause:reconcile",
            summary="Request a reconcile of objects now.",
        ),
        "top": LazyCommand(
            target="opsdk.cli.top.command:top",
            summary="Show live what an operator does, and what is wrong.",
            epilog="The operator serves its debug pages with --debug-bind-address=127.0.0.1:6060.",
        ),
        "why": LazyCommand(
            target="opsdk.cli.why:why",
            summary="Print why an object was reconciled.",
            epilog="The operator serves its debug pages with --debug-bind-address=127.0.0.1:6060. In a cluster: "
            "kubectl port-forward pod/NAME 6060",
        ),
        "more": LazyCommand(
            target="opsdk.cli.app:more",
            summary="Describe the other commands.",
        ),
    }


def more(context: typer.Context) -> None:
    """Describe the commands that opsdk --help only names.

    opsdk more
    """
    group = context.find_root().command
    assert isinstance(group, LazyGroup)
    formatter = context.make_formatter()
    group.write_sections(formatter, group.more_sections)
    print(formatter.getvalue().strip())


class _CreateGroup(LazyGroup):
    lazy_commands: ClassVar = {
        "api": LazyCommand(
            target="opsdk.cli.scaffold.commands:create_api",
            summary="Add a kind with a reconciler and a test.",
        ),
        "version": LazyCommand(
            target="opsdk.cli.scaffold.commands:create_version",
            summary="Add a version to a kind, with its conversion.",
        ),
        "webhook": LazyCommand(
            target="opsdk.cli.scaffold.commands:create_webhook",
            summary="Add a defaulting and a validating webhook for a kind.",
        ),
        "policy": LazyCommand(
            target="opsdk.cli.scaffold.commands:create_policy",
            summary="Add an admission policy for a kind.",
        ),
    }


class _GenerateGroup(LazyGroup):
    lazy_commands: ClassVar = {
        "crd": LazyCommand(target=f"{_GENERATE}:crd", summary="Generate CustomResourceDefinitions from classes."),
        "rbac": LazyCommand(
            target=f"{_GENERATE}:rbac",
            summary="Print the RBAC manifests of an operator.",
        ),
        "models": LazyCommand(
            target=f"{_GENERATE}:models",
            summary="Generate typed classes from CRDs, OpenAPI or a server.",
        ),
        "norman-client": LazyCommand(
            target="opsdk.cli.generate.norman_client:norman_client",
            summary="Generate a typed client of a Norman API.",
        ),
        "manifests": LazyCommand(
            target=f"{_PACKAGE}:manifests",
            summary="Write CRDs, RBAC, Deployment and Services.",
        ),
        "monitoring": LazyCommand(
            target="opsdk.cli.generate.monitoring:monitoring",
            summary="Write alerts, a dashboard and runbooks of an operator.",
        ),
        "webhooks": LazyCommand(
            target=f"{_PACKAGE}:webhooks",
            summary="Print the webhook configurations of the operator.",
        ),
        "policies": LazyCommand(
            target=f"{_PACKAGE}:policies",
            summary="Print the admission policies of an operator.",
        ),
        "all": LazyCommand(
            target=f"{_PACKAGE}:manifests", summary=_ALL_SUMMARY, help=f"{_ALL_SUMMARY}\n\nopsdk generate all"
        ),
    }


class _CanaryGroup(LazyGroup):
    lazy_commands: ClassVar = {
        "start": LazyCommand(target="opsdk.cli.canary:start", summary="Give namespaces or shards to a new version."),
        "status": LazyCommand(target="opsdk.cli.canary:status", summary="Print the version that owns each shard."),
        "promote": LazyCommand(target="opsdk.cli.canary:promote", summary="Give all shards to the new version."),
        "abort": LazyCommand(target="opsdk.cli.canary:abort", summary="Give all shards back to the old version."),
    }


class _MigrateGroup(LazyGroup):
    lazy_commands: ClassVar = {
        "kopf": LazyCommand(
            target="opsdk.cli.migrate.command:kopf",
            summary="Turn a kopf operator into an opsdk operator.",
            epilog="Requires the extra migrate: pip install 'opsdk[cli,migrate]'. For --examples: envtest, and kopf.",
        ),
    }


app = typer.Typer(
    cls=_OpsdkGroup,
    help="Tools for operators written with opsdk.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Importing Rich doubles the time of opsdk --help; only the help of a command uses it.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(
    typer.Typer(
        cls=_CreateGroup,
        help="Add an API, a webhook or a policy to a project.",
        no_args_is_help=True,
        rich_markup_mode=None,
    ),
    name="create",
)
app.add_typer(
    typer.Typer(
        cls=_CanaryGroup,
        help="Let a new version of an operator own chosen namespaces or shards.",
        no_args_is_help=True,
        rich_markup_mode=None,
    ),
    name="canary",
)
app.add_typer(
    typer.Typer(
        cls=_GenerateGroup,
        help="Generate CRDs, classes, RBAC and manifests.",
        no_args_is_help=True,
        rich_markup_mode=None,
    ),
    name="generate",
)
app.add_typer(
    typer.Typer(
        cls=_MigrateGroup,
        help="Turn operators of other frameworks into opsdk operators.",
        no_args_is_help=True,
        rich_markup_mode=None,
    ),
    name="migrate",
)
