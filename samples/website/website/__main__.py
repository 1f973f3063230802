"""Run the operator: ``python -m website``."""

from __future__ import annotations

import argparse
import sys

from opsdk import ControllerOptions, ManagerOptions, OperatorOptions, OpsdkError
from website.operator import make_operator


def main() -> int:
    """Parse the flags and run until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m website", description="Keeps Websites as wanted.")
    parser.add_argument("--kubeconfig", help="default: $KUBECONFIG, then in-cluster, then ~/.kube/config")
    parser.add_argument("--context", help="the kubeconfig's context")
    parser.add_argument("--health-probe-bind-address", default="", help="host:port of /healthz and /readyz")
    parser.add_argument("--metrics-bind-address", default="", help="host:port of /metrics")
    parser.add_argument("--workers", type=int, default=4, help="reconciles at a time")
    parser.add_argument("--leader-elect", action="store_true", help="work on one replica at a time")
    parser.add_argument("--leader-elect-namespace", default="", help="default: the namespace this runs in")
    parser.add_argument("--lease-duration", type=float, default=15.0, help="seconds others wait for a silent leader")
    parser.add_argument("--renew-deadline", type=float, default=10.0, help="seconds after which a leader gives up")
    parser.add_argument("--retry-period", type=float, default=2.0, help="seconds between two tries")
    parser.add_argument("--log-level", default="INFO")
    arguments = parser.parse_args()
    options = OperatorOptions(
        manager=ManagerOptions(
            health_probe_bind_address=arguments.health_probe_bind_address,
            metrics_bind_address=arguments.metrics_bind_address,
        ),
        controller=ControllerOptions(max_concurrent_reconciles=arguments.workers),
        leader_election=arguments.leader_elect,
        leader_election_namespace=arguments.leader_elect_namespace,
        lease_duration=arguments.lease_duration,
        renew_deadline=arguments.renew_deadline,
        retry_period=arguments.retry_period,
    )
    try:
        make_operator(options).run(
            kubeconfig=arguments.kubeconfig, context=arguments.context, log_level=arguments.log_level
        )
    except OpsdkError as error:
        print(f"website-operator: {error}", file=sys.stderr)  # noqa: T201 - the program's last words
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
