"""The cluster of a command: the options that choose it, and the line that names it before a change."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from opsdk.rest.config import RestConfig
from opsdk.rest.load import load_config

ContextOption = Annotated[str, typer.Option("--context", help="kubeconfig context; default: the current one")]
"""The option ``--context``."""
KubeconfigOption = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="kubeconfig file; default: $KUBECONFIG")
]
"""The option ``--kubeconfig``."""


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

    def to_change(self, namespace: str | None = "", *, dry_run: bool = False) -> RestConfig:
        """Return the configuration, and say on standard error what the command is about to change.

        Args:
            namespace: where the command writes; empty for the namespace of the context, None for no single one.
            dry_run: nothing is changed.

        Raises:
            ConfigError: there is no configuration, or it is invalid.
        """
        config = self.to_read()
        action = "would change" if dry_run else "changes"
        where = "" if namespace is None else f", namespace {namespace or config.namespace}"
        print(f"{action} {config.host} ({config.source}){where}", file=sys.stderr)
        return config
