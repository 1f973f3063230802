"""The cluster of a command: the options that choose it, and the one manner of each command that changes it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

import typer

from opsdk.cli.consent import ask, check_consent
from opsdk.cli.output import OutputFormat, print_result
from opsdk.rest.config import RestConfig
from opsdk.rest.load import load_config
from opsdk.structured_merge.value import JsonValue

T = TypeVar("T")

ContextOption = Annotated[str, typer.Option("--context", help="kubeconfig context; default: the current one")]
"""The option ``--context``."""
KubeconfigOption = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="kubeconfig file; default: $KUBECONFIG")
]
"""The option ``--kubeconfig``."""
KubernetesOption = Annotated[
    str | None,
    typer.Option(
        "--kubernetes",
        metavar="VERSION",
        help="that the local server serves, such as 1.35; default: the newest recorded",
    ),
]
"""The option ``--kubernetes`` of commands that run on a local API server."""
OldestOption = Annotated[
    str,
    typer.Option("--for", metavar="VERSION", help="the oldest Kubernetes that must accept the CRDs, such as 1.31"),
]
"""The option ``--for`` of commands that write CustomResourceDefinitions."""


class TargetCluster(NamedTuple):
    """What chooses the cluster of a command.

    Attributes:
        context: of the kubeconfig; empty for the current one.
        kubeconfig: the file; None for the default.
    """

    context: str = ""
    kubeconfig: Path | None = None

    def to_read(self) -> RestConfig:
        """Return the configuration for a command that changes nothing there. Raises `ConfigError`."""
        return load_config(kubeconfig=self.kubeconfig, context=self.context or None)


class Attempt(NamedTuple):
    """One pass of a command that changes a cluster.

    Attributes:
        config: of the cluster.
        dry_run: write nothing.
        is_preview: the question follows, so what is printed goes to standard error.
    """

    config: RestConfig
    dry_run: bool = False
    is_preview: bool = False

    def print(self, output: OutputFormat, result: JsonValue, lines: Iterable[str]) -> None:
        """Print the result, or what it would be."""
        if self.is_preview:
            for line in lines:
                print(line, file=sys.stderr)
        else:
            print_result(output, result, lines)


class Consent(NamedTuple):
    """The cluster that a command changes, and the options ``--yes`` and ``--dry-run``."""

    cluster: TargetCluster
    yes: bool
    dry_run: bool

    @classmethod
    def of(cls, cluster: TargetCluster, *, yes: bool, dry_run: bool) -> Consent:
        """Return the options of a command line.

        Raises:
            typer.BadParameter: both are set, or neither is and there is no terminal for the question.
        """
        check_consent(yes=yes, dry_run=dry_run, changed="a cluster")
        return cls(cluster, yes, dry_run)

    def change(self, run: Callable[[Attempt], T], *, what: str, namespace: str | None = "") -> T:
        """Run a command that changes a cluster: name the cluster, print the changes, ask, and make them.

        Args:
            run: makes one pass, and prints what it does. For the question, the first pass is a preview.
            what: the change in words, after server, context and namespace.
            namespace: where the command writes; empty for the namespace of the context, None for no single one.

        Raises:
            ConfigError: there is no configuration, or it is invalid.
            typer.Exit: the answer was no.
        """
        config = self.cluster.to_read()
        place = f"{config.host} ({config.source})"
        place += "" if namespace is None else f", namespace {namespace or config.namespace}"
        print(f"{place}: {'would ' if self.dry_run else ''}{what}", file=sys.stderr)
        if self.dry_run:
            return run(Attempt(config, dry_run=True))
        if not self.yes:
            run(Attempt(config, dry_run=True, is_preview=True))
            ask()
        return run(Attempt(config))
