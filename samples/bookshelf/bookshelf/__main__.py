"""Run the server: ``python -m bookshelf``."""

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


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m bookshelf", description="Serves Books behind kube-apiserver.")
    made.add_argument("--kubeconfig", help="of the server in front; default: $KUBECONFIG, then in-cluster")
    made.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    made.add_argument("--port", type=int, default=4443, help="the TCP port; 0 takes a free one")
    made.add_argument("--tls-cert-file", type=Path, required=True, help="for bookshelf.default.svc")
    made.add_argument("--tls-private-key-file", type=Path, required=True)
    where = made.add_mutually_exclusive_group()
    where.add_argument("--data-dir", type=Path, help="keep the books here; default: in memory")
    where.add_argument("--etcd-servers", metavar="URL[,URL]", help="keep the books in etcd, for several replicas")
    made.add_argument("--etcd-prefix", default="/registry/", help="the beginning of all keys in etcd")
    made.add_argument("--etcd-cafile", type=Path, help="the CA of etcd's certificates")
    made.add_argument("--etcd-certfile", type=Path, help="this server's client certificate for etcd")
    made.add_argument("--etcd-keyfile", type=Path, help="the key of --etcd-certfile")
    return made


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with Cluster(load_config(kubeconfig=arguments.kubeconfig)) as front:
        said = await front.uncached.get(ConfigMap, f"{NAMESPACE}/{NAME}")
        trust = ClientAuthenticationConfig.of(said.data)
        with tempfile.NamedTemporaryFile(suffix=".crt") as bundle:
            bundle.write(trust.bundle)
            bundle.flush()
            tls = Tls(
                cert_file=arguments.tls_cert_file,
                key_file=arguments.tls_private_key_file,
                client_ca_file=Path(bundle.name),
            )
            options = ServeOptions(host=arguments.host, port=arguments.port, tls=tls)
            async with opened(arguments) as storage:
                server = make_server(storage, trust, front.uncached)
                async with WebServer(server.app, options) as web:
                    print(f"ready {web.url}", flush=True)  # noqa: T201 - for whoever waits for it
                    await stopped.wait()
                    storage.end_watches()


@asynccontextmanager
async def opened(arguments: argparse.Namespace) -> AsyncIterator[Storage]:
    """Where books are kept: etcd, a file, or memory."""
    if arguments.etcd_servers:
        # Only this needs the extra `etcd`.
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
    """Run; the exit status is 1 for what the user can mend."""
    try:
        asyncio.run(serve(parser().parse_args()))
    except OpsdkError as error:
        print(f"bookshelf: {error}", file=sys.stderr)  # noqa: T201 - the program's last words
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
