"""opsdk, as its documentation writes operators."""

from __future__ import annotations

import logging
import os
import signal

from benchmarks.objects import GROUP, VERSION
from benchmarks.protocol import Meter, Options, Sample, run_client, send_sample
from opsdk import (
    CacheOptions,
    ClusterOptions,
    Context,
    ControllerOptions,
    GroupVersionKind,
    Model,
    Object,
    Operator,
    OperatorOptions,
)


class WidgetSpec(Model):
    """See `benchmarks.objects.widget_definition`."""

    value: int = 0
    text: str = ""


class WidgetStatus(Model):
    """See `benchmarks.objects.widget_definition`."""

    observed: int = 0


class Widget(Object[WidgetSpec, WidgetStatus]):
    """The reconciled kind."""

    gvk = GroupVersionKind(GROUP, VERSION, "Widget")


def operator_of(options: Options) -> Operator:
    """Return an operator of one namespace with so many workers."""
    return Operator(
        "bench",
        OperatorOptions(
            cluster=ClusterOptions(cache=CacheOptions(namespaces=[options["namespace"]])),
            controller=ControllerOptions(max_concurrent_reconciles=options.get("workers", 1)),
        ),
    )


def reconcile_workload(options: Options) -> None:
    """Write one status for each of `count` objects."""
    operator = operator_of(options)
    written = 0
    sample: Sample | None = None

    @operator.reconciler(Widget)
    async def reconcile(widget: Widget, ctx: Context) -> None:
        nonlocal written, sample
        if widget.status.observed == widget.spec.value:
            return
        async with ctx.status(widget) as patch:
            patch.status.observed = widget.spec.value
        written += 1
        if written == options["count"]:
            sample = meter.stop(written)
            os.kill(os.getpid(), signal.SIGTERM)

    meter = Meter()
    operator.run(kubeconfig=options["kubeconfig"], log_level=logging.WARNING)
    assert sample is not None
    send_sample(sample)


if __name__ == "__main__":
    run_client({"reconcile": reconcile_workload})
