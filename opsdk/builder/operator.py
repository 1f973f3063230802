"""Operator: declarations, and the program that runs them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from opsdk.apimachinery.kinds import KindLike
from opsdk.apimachinery.object import AnyObject, KubeObject, TypedObject, Unstructured
from opsdk.apimachinery.scheme import Scheme
from opsdk.builder.controller_builder import ControllerBuilder
from opsdk.builder.declaration import OperatorDeclaration
from opsdk.builder.options import OperatorOptions
from opsdk.builder.prepared import PreparedOperator
from opsdk.builder.reconciler_options import DeclaredReconciler, declare
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.controller.controller import Controller
from opsdk.controller.options import ControllerOptions
from opsdk.errors import OpsdkError, UsageError
from opsdk.manager.manager import Manager
from opsdk.rbac.declared import ControllerKinds
from opsdk.rest.config import RestConfig
from opsdk.telemetry.context import setup_logging
from opsdk.telemetry.records import TelemetryHook

if TYPE_CHECKING:  # start-up time: most operators have no webhooks, and a test has no program
    from opsdk.builder.program import Prepare, ProgramRun
    from opsdk.client.recorder.recorder import EventRecorder
    from opsdk.webhook.server import WebhookServer

Child = TypeVar("Child", bound=TypedObject | Unstructured)
T = TypeVar("T", bound=AnyObject)


class Operator(OperatorDeclaration):
    """An operator: a manager, a cluster, controllers and webhooks.

    ::

        operator = Operator("website-operator")

        @operator.reconciler(Website, owns=[Deployment])
        async def reconcile(site: Website, ctx: Context) -> None:
            await ctx.apply(deployment_of(site))

        if __name__ == "__main__":
            operator.run()

    Args:
        name: the field owner of its writes, and the reporting controller of its Events.
        options: see `OperatorOptions`.
        scheme: the registry of kinds; default: all built-in kinds.
    """

    def __init__(self, name: str, options: OperatorOptions | None = None, *, scheme: Scheme | None = None) -> None:
        super().__init__(name, options, scheme=scheme)
        self._prepared: PreparedOperator | None = None
        self.reference = ""
        """How a command line named it, such as ``shop.operator:make``; empty if none did."""
        self._arguments: tuple[str, ...] = ()
        self._environment: dict[str, str] = {}

    # -------------------------------------------------------------- life cycle
    def prepare(
        self, config: RestConfig, *, cluster: Cluster | None = None, hooks: Sequence[TelemetryHook] = ()
    ) -> Manager:
        """Create the cluster, the manager and every controller, and return the manager. `start` and `run` call it.

        A given `cluster` is used as it is: its owner starts and closes it.
        """
        return self._prepare(config, cluster, hooks).manager

    def _prepare(self, config: RestConfig, cluster: Cluster | None, hooks: Sequence[TelemetryHook]) -> PreparedOperator:
        prepared = self._prepared = PreparedOperator(self, config, cluster=cluster, hooks=hooks)
        prepared.add_services()
        for setup in self.setups:
            setup(self)
        for reconciler in self.reconcilers if prepared.runs_controllers else ():
            self._builder_of(reconciler).complete()
        prepared.complete()
        return prepared

    def _builder_of(self, reconciler: DeclaredReconciler) -> ControllerBuilder[Any]:
        kind, options = reconciler.kind, reconciler.options
        name, own = options.get("name", ""), options.get("options")
        # Of this object: tests replace its method to change each controller.
        builder = (
            self.controller(name, options=own) if kind is None else self.controller_for(kind, name=name, options=own)
        )
        return declare(builder, options, reconciler.target, source_argument=self)

    async def start(
        self, config: RestConfig, *, cluster: Cluster | None = None, hooks: Sequence[TelemetryHook] = ()
    ) -> None:
        """Run until cancelled, or until something fails. Raises the errors of `Manager.start`.

        Args:
            config: address and credentials.
            cluster: a running cluster whose informers are used: for several operators in one process, and for one that
                replaces another without new lists. Its scheme and options apply.
            hooks: receive telemetry.
        """
        self.prepare(config, cluster=cluster, hooks=hooks)
        await self.start_prepared()

    async def start_prepared(self) -> None:
        """Run the prepared manager, once. Raises the errors of `start`."""
        await self._get_prepared("manager").start()

    def run(
        self,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        log_level: int | str = logging.INFO,
        log_format: Literal["text", "json"] = "text",
        log_levels: Mapping[str, int | str] | None = None,
        hooks: Sequence[TelemetryHook] = (),
    ) -> None:
        """Run as a program: load the configuration, configure logging, handle signals. Returns after SIGTERM or SIGINT.

        The process exits within `ManagerOptions.shutdown_timeout` and a grace period, even if user code hangs. Code
        that blocks the event loop is logged (see `opsdk.aio.watchdog`). If remaining threads would keep the interpreter
        from exiting, the process exits here (see `opsdk.manager.process.run_program`).

        Args:
            kubeconfig: see `opsdk.rest.load.load_config`.
            context: see `opsdk.rest.load.load_config`.
            log_level: see `opsdk.telemetry.context.setup_logging`.
            log_format: see `setup_logging`.
            log_levels: see `setup_logging`.
            hooks: receive telemetry, such as `opsdk.telemetry.otel.OpenTelemetryHook`.

        Raises:
            Exception: see `start`.
        """
        # Start-up time: only programs need a kubeconfig and signals.
        from opsdk.builder.program import ProgramRun  # noqa: PLC0415 - as above
        from opsdk.rest.load import load_config  # noqa: PLC0415 - as above

        setup_logging(log_level, log_format, levels=log_levels)
        config = load_config(kubeconfig=kubeconfig, context=context)

        def prepare(config: RestConfig, more_hooks: Sequence[TelemetryHook]) -> PreparedOperator:
            return self._prepare(config, None, [*hooks, *more_hooks])

        run = self._recorded_run(prepare) if self.options.recording.directory else ProgramRun(self.options, prepare)
        run.run(config)

    def _recorded_run(self, prepare: Prepare) -> ProgramRun:
        from opsdk.builder.checkpoint import take_checkpoint  # noqa: PLC0415 - start-up time: few runs are recorded
        from opsdk.builder.recorded_run import RecordedRun  # noqa: PLC0415 - as above
        from opsdk.recording.process import RecordedProgram  # noqa: PLC0415 - as above

        program = RecordedProgram(
            operator=self.name,
            reference=self.reference,
            arguments=self._arguments,
            environment=self._environment,
            modules=tuple(self.modules),
        )
        return RecordedRun(self.options, prepare, program=program, checkpoint=partial(take_checkpoint, self))

    def main(self, arguments: Sequence[str] | None = None, *, hooks: Sequence[TelemetryHook] = ()) -> None:
        """Run as a program with flags and environment variables, see `opsdk.builder.flags`.

        An `OpsdkError` is printed as one line, and ends the program with status 1. A wrong flag or environment variable
        ends it with 64.

        Args:
            arguments: the command line without the program; default: ``sys.argv``.
            hooks: see `run`.
        """
        # Start-up time: only programs need argparse and YAML.
        from opsdk.apimachinery.serializer.yaml_writer import write_documents  # noqa: PLC0415 - as above
        from opsdk.base.command_line import USAGE_STATUS  # noqa: PLC0415 - as above
        from opsdk.builder.flags import flags_in, parse_flags  # noqa: PLC0415 - as above

        self._arguments = tuple(sys.argv[1:] if arguments is None else arguments)
        try:
            self.options, run_arguments = parse_flags(self.name, self.options, self._arguments, os.environ)
        except UsageError as error:
            sys.stderr.write(f"{self.name}: {error}\n")
            sys.exit(USAGE_STATUS)
        try:
            self._environment = flags_in(os.environ)
            if run_arguments.pop("print_crds"):
                sys.stdout.write(write_documents(self.definitions(), sort_keys=False))
            else:
                self.run(**run_arguments, hooks=hooks)
        except OpsdkError as error:
            sys.exit(f"{self.name}: {error}")

    # -------------------------------------------------------------- access
    def _get_prepared(self, part: str) -> PreparedOperator:
        if self._prepared is None:
            raise UsageError(f"the operator is not started: call run() or start() to create its {part}")
        return self._prepared

    @property
    def cluster(self) -> Cluster:
        """The cluster. Raises `UsageError` before the operator is started."""
        return self._get_prepared("cluster").cluster

    @property
    def manager(self) -> Manager:
        """The manager. Raises `UsageError` before the operator is started."""
        return self._get_prepared("manager").manager

    @property
    def client(self) -> Client:
        """The client: reads from the cache, writes to the server."""
        return self.cluster.client

    async def apply(self, desired: Child, *, owner: KubeObject | None = None, force: bool = True) -> Child:
        """Make an object match `desired`, controlled by `owner`. See `opsdk.children.applier.Applier.apply`."""
        return await self.cluster.applier().apply(desired, owner=owner, force=force)

    @property
    def recorder(self) -> EventRecorder:
        """Writes Events."""
        return self.cluster.recorder

    @property
    def controllers(self) -> dict[str, Controller]:
        """The controllers by name. Empty before the operator is prepared."""
        return self._prepared.controllers if self._prepared is not None else {}

    @property
    def webhook_server(self) -> WebhookServer | None:
        """Serves the declared webhooks; None before `prepare`, and without webhooks."""
        return self._prepared.webhook_server if self._prepared is not None else None

    def controller_for(
        self, kind: KindLike[T], *, name: str = "", options: ControllerOptions | None = None
    ) -> ControllerBuilder[T]:
        """Return a builder for a controller of `kind`. Call it in a `setup` function, or after `prepare`."""
        return self._get_prepared("cluster").controller_for(kind, name=name, options=options)

    def controller(self, name: str, *, options: ControllerOptions | None = None) -> ControllerBuilder[Any]:
        """Return a builder for a controller without a reconciled kind. Call it where you may call `controller_for`."""
        return self._get_prepared("cluster").controller(name, options=options)

    def _controller_kinds(self) -> list[ControllerKinds]:
        """Return what the rules of each controller derive from: of those that were built, once it is prepared."""
        return self._prepared.controller_kinds() if self._prepared is not None else super()._controller_kinds()

    def _own_namespace(self, default: str) -> str:
        """Return the operator's own namespace: that of its configuration, once it is prepared."""
        return (
            self._prepared.cluster.config.namespace if self._prepared is not None else super()._own_namespace(default)
        )

    def __repr__(self) -> str:
        return f"<Operator {self.name}>"
