"""What all plans of an operator need: the operator with its flags and doubles, its permissions, the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from opsdk.builder.flags import parse_flags
from opsdk.builder.operator import Operator
from opsdk.cli.loading import load_operator
from opsdk.cli.output import show_progress
from opsdk.cli.plan.inputs import load_doubles
from opsdk.cli.project import find_project
from opsdk.engine.snapshot import ClusterSnapshot, SnapshotKind
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.rbac.permissions import RuleSet
from opsdk.rest.config import Impersonate, RestConfig
from opsdk.rest.load import load_config

__all__ = ["ClusterChoice", "OperatorChoice", "show_kind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """A cluster, and as whom it is read.

    Attributes:
        kubeconfig: the file; None for the default.
        context: in that file; empty for the current one.
        user: to impersonate; empty for none.
    """

    kubeconfig: Path | None = None
    context: str = ""
    user: str = ""

    @property
    def config(self) -> RestConfig:
        """The configuration of its clients."""
        config = load_config(kubeconfig=self.kubeconfig, context=self.context or None)
        return replace(config, impersonate=Impersonate(user=self.user)) if self.user else config

    def read(self, rules: RuleSet | None, *, names: Sequence[str] = (), secret_values: bool = False) -> ClusterSnapshot:
        """Return a snapshot of what rules name, None for all kinds, and of further kinds by name."""
        taken = take_snapshot(self.config, rules=rules, names=names, secret_values=secret_values, progress=show_kind)
        return asyncio.run(taken)


def show_kind(kind: SnapshotKind) -> None:
    """Show how far a snapshot is, on a terminal."""
    if kind.count:
        show_progress(f"read {kind.count} {kind.resource}")


@dataclass(frozen=True, kw_only=True)
class OperatorChoice:
    """An operator, and how it runs.

    Attributes:
        reference: that names it; empty for that of the project.
        flags: such as ``max-replicas=3``.
        doubles: that name the doubles of its external systems; empty for those of the project.
        all_permissions: it runs as an admin.
        seconds: until the run ends.
        allowed_hosts: that it may reach.
        kubernetes: the version of the local API server; None for the default.
    """

    reference: str
    flags: Sequence[str] = ()
    doubles: str = ""
    all_permissions: bool = False
    seconds: float = 86_400.0
    allowed_hosts: Sequence[str] = ()
    kubernetes: str | None = None

    @cached_property
    def operator(self) -> Operator:
        """The operator with its flags."""
        return self._with_flags(load_operator(self.reference))

    @property
    def namespace(self) -> str:
        """Where it runs."""
        project = find_project(Path.cwd())
        return self.operator.options.namespace or (project.namespace if project is not None else "") or "default"

    @property
    def declared_rules(self) -> RuleSet:
        """The permissions that it declares."""
        return self.operator.rules(namespace=self.namespace)

    @property
    def read_rules(self) -> RuleSet | None:
        """The rules whose kinds a snapshot has; None for all kinds, which an admin may use."""
        return None if self.all_permissions else self.declared_rules

    @property
    def rules(self) -> RuleSet | None:
        """The permissions with which it runs; None for those that it declares."""
        return RuleSet.everything() if self.all_permissions else None

    def on_doubles(self, state: ClusterSnapshot) -> Operator:
        """Return the operator that uses the doubles of its external systems; the operator itself if it has none.

        Args:
            state: that the doubles begin with.

        Raises:
            UsageError: the doubles cannot be loaded, fail, or are something else.
        """
        factory = load_doubles(self.reference, self.doubles)
        return self.operator if factory is None else self._with_flags(factory(state).operator())

    def _with_flags(self, operator: Operator) -> Operator:
        words = [f"--{flag}" for flag in self.flags]
        operator.options, _ = parse_flags(operator.name, operator.options, words, {})
        return operator

    @property
    def words(self) -> list[str]:
        """The options of the command line with which another version runs in the same way."""
        words = ["--until", f"{self.seconds:g}"]
        words += [word for host in self.allowed_hosts for word in ("--allow-host", host)]
        words += [word for flag in self.flags for word in ("--set", flag)]
        words += ["--doubles", self.doubles] if self.doubles else []
        words += ["--kubernetes", self.kubernetes] if self.kubernetes is not None else []
        return [*words, "--all-permissions"] if self.all_permissions else words
