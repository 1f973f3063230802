"""opsdk with a flight recorder, beside the same operator without one."""

from __future__ import annotations

from tempfile import TemporaryDirectory

from benchmarks.clients.opsdk import reconcile_workload
from benchmarks.protocol import Options, run_client


def recorded_workload(options: Options) -> None:
    """Record the workload of `reconcile_workload`."""
    with TemporaryDirectory() as directory:
        reconcile_workload(options, recording=directory)


if __name__ == "__main__":
    run_client({"reconcile": recorded_workload})
