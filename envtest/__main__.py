"""``python -m envtest serve``: a local API server for kubectl and friends; ``assets``: for Go's envtest."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from envtest.environment import Environment
from envtest.fake_binaries.assets import write_assets
from envtest.fake_binaries.program import run
from envtest.plane.compaction import INTERVAL
from envtest.plane.kubeconfig import write_private
from opsdk.aio.garbage import tune_garbage_collector
from opsdk.aio.tasks import TaskOwner
from opsdk.apiserver.auth.authentication import read_token_file
from opsdk.apiserver.auth.authorization import AllowAuthenticated
from opsdk.apiserver.endpoints.request_deadline import read_duration
from opsdk.base.command_line import CommandLineParser
from opsdk.engine.world.link import Link
from opsdk.errors import ConfigError
from opsdk.rest.start_failure import clear_start_failure, write_start_failure
from opsdk.testing.simulation.plan_file import play, read_plan

# Seconds between checks of the parent process.
_PARENT_POLL = 0.5


def parser() -> argparse.ArgumentParser:
    """Return the command line parser."""
    argument_parser = CommandLineParser(prog="python -m envtest", description="A local Kubernetes API server.")
    commands = argument_parser.add_subparsers(dest="command", required=True)
    words = "write programs for KUBEBUILDER_ASSETS that start this server under the names of the real ones"
    commands.add_parser("assets", help=words).add_argument("directory", type=Path, help="where to write them")
    serve = commands.add_parser("serve", help="serve until SIGTERM")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    serve.add_argument("--port", type=int, default=6443, help="the TCP port; 0 selects a free one")
    serve.add_argument("--kubeconfig", type=Path, help="write the admin's kubeconfig to this file")
    words = "the version of Kubernetes to serve: 1.35, 1.36 (the default) or 1.37"
    serve.add_argument("--kubernetes-version", metavar="VERSION", help=words)
    serve.add_argument("--token-auth-file", type=Path, help='more users: lines of token,user,uid,"group1,group2"')
    modes = "authorization: RBAC, or AlwaysAllow for authenticated users"
    serve.add_argument("--authorization-mode", choices=("RBAC", "AlwaysAllow"), default="RBAC", help=modes)
    serve.add_argument("--no-anonymous-auth", action="store_true", help="return 401 for requests without credentials")
    serve.add_argument("--data-dir", type=Path, help="keep objects and certificates in this directory")
    words = "simulated controllers: none, cluster (all of them), or comma-separated names; -name excludes one"
    serve.add_argument("--controllers", default="none", help=words)
    serve.add_argument("--service-cluster-ip-range", default="10.0.0.0/24", help="CIDR of the cluster IPs of Services")
    serve.add_argument("--enable-admission-plugins", default="", help="more built-in plugins, separated by commas")
    serve.add_argument(
        "--disable-admission-plugins", default="", help="built-in plugins to disable, separated by commas"
    )
    words = "how often old revisions expire, such as 5m0s; 0: never"
    serve.add_argument("--etcd-compaction-interval", type=read_duration, default=INTERVAL, help=words)
    words = "exit when the parent process ends, even after a kill -9"
    serve.add_argument("--exit-with-parent", action="store_true", help=words)
    serve.add_argument("--no-tls", action="store_true", help="plain HTTP")
    serve.add_argument("--faults", type=Path, help="plan of faults in YAML or JSON; times are seconds after the start")
    serve.add_argument(
        "--seed", type=int, default=0, help="seed of a drawn plan: the same seed repeats the same faults"
    )
    return argument_parser


async def serve(options: argparse.Namespace, stack: AsyncExitStack) -> str:
    """Start the server and return the message to print.

    A start that fails leaves its reason beside the kubeconfig, for a process that waits for that.
    """
    if options.kubeconfig:
        clear_start_failure(options.kubeconfig)
    try:
        return await _start(options, stack)
    except Exception as error:
        if options.kubeconfig:
            write_start_failure(options.kubeconfig, error)
        raise


async def _start(options: argparse.Namespace, stack: AsyncExitStack) -> str:
    gc.freeze()  # schemas live as long as the process
    tokens = read_token_file(options.token_auth_file) if options.token_auth_file else {}
    environment = Environment(
        data_dir=options.data_dir,
        controllers=options.controllers,
        tokens=tokens,
        authorizer=AllowAuthenticated() if options.authorization_mode == "AlwaysAllow" else None,
        anonymous=not options.no_anonymous_auth,
        service_range=options.service_cluster_ip_range,
        admission_plugins=options.enable_admission_plugins,
        disable_admission_plugins=options.disable_admission_plugins,
        compaction_interval=options.etcd_compaction_interval,
        kubernetes=options.kubernetes_version,
    )
    steps = read_plan(options.faults, options.seed) if options.faults else ()
    env = await stack.enter_async_context(environment)
    tune_garbage_collector()
    link = Link(env.server.app, seed=options.seed, max_latency=0.0, hot_requests=0) if options.faults else None
    web = await env.serve(host=options.host, port=options.port, tls=not options.no_tls, app=link)
    if link is not None:
        tasks = await stack.enter_async_context(TaskOwner("faults"))
        tasks.start(play(link, steps), name="play")
    if options.exit_with_parent:
        tasks = await stack.enter_async_context(TaskOwner("parent"))
        tasks.start(_stop_with_parent(os.getppid()), name="watch")
    if options.kubeconfig:
        write_private(options.kubeconfig, env.kubeconfig(web))
    return f"ready {web.url}"


async def _stop_with_parent(parent: int) -> None:
    """Exit when the parent process changes, because the original one has ended."""
    while os.getppid() == parent:  # noqa: ASYNC110 - no event reports a new parent
        await asyncio.sleep(_PARENT_POLL)
    os.kill(os.getpid(), signal.SIGTERM)


def assets(directory: Path) -> int:
    """Write the fake binaries for Go's envtest, and print the variable that points to them."""
    try:
        write_assets(directory)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"export KUBEBUILDER_ASSETS={shlex.quote(str(directory.absolute()))}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit status: 1 for an error that the user can correct, 64 for a wrong flag."""
    options = parser().parse_args(arguments)
    if options.command == "assets":
        return assets(options.directory)
    return run(lambda stack: serve(options, stack))


if __name__ == "__main__":
    sys.exit(main())
