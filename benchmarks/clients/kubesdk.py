"""kubesdk: a typed client with a watch; cache, queue and workers are the user's."""

from __future__ import annotations

from benchmarks.protocol import Options, Sample, SkippedError, run_client


async def reconcile_workload(_: Options) -> Sample:
    """Say that there is nothing to measure."""
    raise SkippedError("has no writes of a status")


WORKLOADS = {"reconcile": reconcile_workload}

if __name__ == "__main__":
    run_client(WORKLOADS)
