"""Run the aggregated API server: ``python -m bookshelf``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from bookshelf.server import make_server
from opsdk import Cluster, OpsdkError, load_config
from opsdk.api.core.v1 import ConfigMap
from opsdk.apiserver import ServeOptions, Tls, WebServer
from opsdk.apiserver.auth.authentication_config import NAME, NAMESPACE, ClientAuthenticationConfig
from opsdk.apiserver.storage.etcd.options import EtcdOptions
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import Storage
from opsdk.apiserver.storage.sqlite import SqliteStorage


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bookshelf", description="Aggregated API server for Books.")
    parser.add_argument("--kubeconfig", help="kubeconfig of kube-apiserver; default: $KUBECONFIG, then in-cluster")
    parser.add_argument("--host", default="127.0.0.1", help="bind address")
    parser.add_argument("--port", type=int, default=4443, help="TCP port; 0 selects a free one")
    parser.add_argument(
        "--tls-cert-file", type=Path, required=True, help="serving certificate for bookshelf.default.svc"
    )
    parser.add_argument("--tls-private-key-file", type=Path, required=True)
    storage = parser.add_mutually_exclusive_group()
    storage.add_argument("--data-dir", type=Path, help="directory of the database file; default: in memory")
    storage.add_argument("--etcd-servers", metavar="URL[,URL]", help="etcd endpoints, for several replicas")
    parser.add_argument("--etcd-prefix", default="/registry/", help="prefix of all etcd keys")
    parser.add_argument("--etcd-cafile", type=Path, help="CA certificate of etcd")
    parser.add_argument("--etcd-certfile", type=Path, help="client certificate for etcd")
    parser.add_argument("--etcd-keyfile", type=Path, help="private key of --etcd-certfile")
    return parser


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with Cluster(load_config(kubeconfig=arguments.kubeconfig)) as front:
        authentication = await front.uncached.get(ConfigMap, f"{NAMESPACE}/{NAME}")
        trust = ClientAuthenticationConfig.of(authentication.data)
        with tempfile.NamedTemporaryFile(suffix=".crt") as bundle:
            bundle.write(trust.bundle)
            bundle.flush()
            tls = Tls(
                cert_file=arguments.tls_cert_file,
                key_file=arguments.tls_private_key_file,
                client_ca_file=Path(bundle.name),
            )
            options = ServeOptions(host=arguments.host, port=arguments.port, tls=tls)
            async with open_storage(arguments) as storage:
                server = make_server(storage, trust, front.uncached)
                async with WebServer(server.app, options) as web:
                    print(f"ready {web.url}", flush=True)  # noqa: T201 - readiness line for scripts
                    await stopped.wait()
                    storage.end_watches()


@asynccontextmanager
async def open_storage(arguments: argparse.Namespace) -> AsyncIterator[Storage]:
    """Open the storage that the arguments select: etcd, a database file, or memory."""
    if arguments.etcd_servers:
        # A late import: it needs the extra `etcd`.
        from opsdk.apiserver.storage.etcd.storage import EtcdStorage  # noqa: PLC0415

        options = EtcdOptions(
            endpoints=tuple(arguments.etcd_servers.split(",")),
            prefix=arguments.etcd_prefix,
            ca_file=arguments.etcd_cafile,
            cert_file=arguments.etcd_certfile,
            key_file=arguments.etcd_keyfile,
        )
        async with EtcdStorage(options) as etcd:
            yield etcd
        return
    if arguments.data_dir is None:
        local = MemoryStorage()
    else:
        arguments.data_dir.mkdir(parents=True, exist_ok=True)
        local = SqliteStorage(arguments.data_dir / "books.db")
    async with aclosing(local):
        yield local


def main() -> int:
    """Run the server, and return the exit status: 1 for an `OpsdkError`."""
    try:
        asyncio.run(serve(argument_parser().parse_args()))
    except OpsdkError as error:
        print(f"bookshelf: {error}", file=sys.stderr)  # noqa: T201 - error message of the program
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
