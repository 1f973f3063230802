"""kopf: an operator framework with handlers and indices."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

import kopf

from benchmarks.objects import GROUP, PLURAL, VERSION
from benchmarks.protocol import Meter, Options, Sample, run_client

_IDLE = 0.005
"""Seconds. A worker of kopf keeps its place for 5 s after its last event, which limits W workers to W / 5 objects/s."""


def settings_of(options: Options) -> kopf.OperatorSettings:
    """Return settings with a limit of workers and without Events."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.queueing.worker_limit = options.get("workers")
    settings.queueing.idle_timeout = _IDLE
    return settings


async def run_operator(registry: kopf.OperatorRegistry, options: Options, done: asyncio.Event) -> None:
    """Run handlers in one namespace until `done`."""
    logging.getLogger("kopf").setLevel(logging.ERROR)
    os.environ["KUBECONFIG"] = options["kubeconfig"]
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
    namespaces = [options["namespace"]]
    operator = kopf.operator(
        registry=registry, settings=settings_of(options), standalone=True, namespaces=namespaces, stop_flag=done
    )
    await operator


async def reconcile_workload(options: Options) -> Sample:
    """Write one status for each of `count` objects: kopf sends the patch after the handler."""
    done = asyncio.Event()
    registry = kopf.OperatorRegistry()
    written: set[str] = set()
    sample: list[Sample] = []

    @kopf.on.create(GROUP, VERSION, PLURAL, registry=registry)
    async def created(spec: Any, patch: Any, **_: Any) -> None:
        patch.status["observed"] = spec["value"]

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def observed(name: str, spec: Any, status: Any, **_: Any) -> None:
        # The patch is sent by kopf itself; its echo is the first sign of it that a handler gets.
        if status.get("observed") == spec["value"]:
            written.add(name)
            if len(written) == options["count"] and not sample:
                sample.append(meter.stop(len(written)))
                done.set()

    meter = Meter()
    await run_operator(registry, options, done)
    return sample[0]


async def sync_workload(options: Options) -> Sample:
    """Fill an index with the bodies of `count` objects."""
    done = asyncio.Event()
    registry = kopf.OperatorRegistry()
    sample: list[Sample] = []
    group, version = (GROUP, VERSION) if options["kind"] == "widgets" else ("", "v1")

    @kopf.index(group, version, options["kind"], id="bodies", registry=registry)
    async def bodies(name: str, body: Any, **_: Any) -> Any:
        return {name: body}

    if options["kind"] == "pods":

        @kopf.index("", "v1", "pods", id="by_node", registry=registry)
        async def by_node(name: str, spec: Any, **_: Any) -> Any:
            return {spec["nodeName"]: name}

    @kopf.on.event(group, version, options["kind"], registry=registry)
    async def observed(bodies: Any, **indices: Any) -> None:
        # kopf calls handlers when its indices are complete.
        if not sample and len(bodies) >= options["count"]:
            sample.append(meter.stop(len(bodies)))
            if "by_node" in indices:
                sample[0].values["indexed"] = sum(len(store) for store in indices["by_node"].values())
            done.set()

    meter = Meter()
    await run_operator(registry, {**options, "workers": None}, done)
    return sample[0]


if __name__ == "__main__":
    run_client({"reconcile": reconcile_workload, "sync": sync_workload})
