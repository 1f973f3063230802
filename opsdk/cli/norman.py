"""``opsdk norman``: a REST API and a web page over the kinds of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from opsdk.api.authentication.v1 import TokenRequest, TokenRequestSpec
from opsdk.api.core.v1 import ServiceAccount
from opsdk.api.rbac.v1 import ClusterRoleBinding, RoleRef, Subject
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.apimachinery.serializer.yaml_documents import read_documents
from opsdk.cli.apiserver import serving
from opsdk.cli.validate.documents import files_of, read_file
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.errors import UsageError
from opsdk.http.server.server import ServeOptions, Tls, WebServer
from opsdk.manager.address import is_loopback
from opsdk.manager.process import run_program
from opsdk.manager.signals import stop_on_signals
from opsdk.norman.cluster_api import cluster_api
from opsdk.norman.web.page import WebPage
from opsdk.recipes.definitions import apply_definitions
from opsdk.rest.config import RestConfig
from opsdk.rest.load import load_config
from opsdk.structured_merge.value import JsonObject

_ADMIN = "opsdk-norman"
_NAMESPACE = "kube-system"


def norman(
    *,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="use the current kubeconfig context instead of a local server")
    ] = False,
    host: Annotated[str, typer.Option(help="bind address")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0 selects a free one")] = 8080,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="PEM certificate chain: serve HTTPS")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="PEM private key")] = None,
    apply: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="YAML file to apply first, or a folder with YAML files")
    ] = None,
) -> None:
    """Serve a REST API and a web page over the kinds of a cluster, until SIGTERM.

    opsdk norman

    opsdk norman --cluster --port 8443 --host 0.0.0.0 --tls-cert tls.crt --tls-key tls.key
    """
    options = _serve_options(host, port, tls_cert, tls_key)
    documents = [document for path in apply or () for document in _documents(path)]
    if cluster:
        run_program(_serve(load_config(), options, documents))
        return
    with tempfile.TemporaryDirectory(prefix="opsdk-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        with serving(kubeconfig, ["--port", "0", "--controllers", "cluster"]):
            config = load_config(kubeconfig=kubeconfig)
            run_program(_serve(config, options, documents, token_file=Path(folder) / "token"))


def _serve_options(host: str, port: int, tls_cert: Path | None, tls_key: Path | None) -> ServeOptions:
    """Return the options of the server. Raises `UsageError` for a public address without TLS, and for half of TLS."""
    if tls_cert is not None and tls_key is not None:
        return ServeOptions(host=host, port=port, tls=Tls(cert_file=tls_cert, key_file=tls_key))
    if tls_cert is not None or tls_key is not None:
        raise UsageError("--tls-cert and --tls-key must be set together")
    if not is_loopback(f"{host}:{port}"):
        raise UsageError(f"{host} is not a loopback address, and tokens are sent to it: add --tls-cert and --tls-key")
    return ServeOptions(host=host, port=port)


async def _serve(
    config: RestConfig, options: ServeOptions, documents: list[JsonObject], *, token_file: Path | None = None
) -> None:
    """Serve the API of a cluster until a signal comes."""
    stopped = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(stop_on_signals(stopped.set))
        cluster = await stack.enter_async_context(Cluster(config))
        running = asyncio.create_task(cluster.start(), name="opsdk norman/cluster")
        stack.push_async_callback(_cancel_and_wait, running)
        await cluster.wait_ready()
        await _apply(cluster.uncached, documents)
        server = await stack.enter_async_context(cluster_api(cluster, page=WebPage(title="norman")))
        web = await stack.enter_async_context(WebServer(server.app, options))
        print(f"the API and its page are at {web.url}/v3")
        if token_file is not None:
            _write_private(token_file, await _admin_token(cluster.uncached))
            print(f"sign in with the token in {token_file}", flush=True)
        else:
            print("sign in with a cluster token: kubectl create token SERVICEACCOUNT", flush=True)
        await stopped.wait()


def _documents(path: Path) -> list[JsonObject]:
    """Return the objects in a file, or in the files of a folder. Raises `UsageError`."""
    try:
        documents = [document for file in files_of(path) for document in read_documents(read_file(file))]
    except SyntaxProblemError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    # A kustomization is not an object.
    return [each for each in documents if isinstance(each, dict) and each.get("kind") not in (None, "Kustomization")]


async def _apply(client: Client, documents: list[JsonObject]) -> None:
    definitions = [each for each in documents if each["kind"] == "CustomResourceDefinition"]
    await apply_definitions(client, definitions)
    for document in documents:
        if document not in definitions:
            await client.apply(Unstructured.from_tree(document), field_owner=_ADMIN)


async def _admin_token(client: Client) -> str:
    """Return a token of a service account with the cluster-admin role."""
    account = ServiceAccount(metadata=ObjectMeta(name=_ADMIN, namespace=_NAMESPACE))
    await client.apply(account, field_owner=_ADMIN)
    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name=_ADMIN),
        role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="cluster-admin"),
        subjects=[Subject(kind="ServiceAccount", name=_ADMIN, namespace=_NAMESPACE)],
    )
    await client.apply(binding, field_owner=_ADMIN)
    request = TokenRequest(spec=TokenRequestSpec(audiences=[], expiration_seconds=24 * 3600))
    issued = await client.subresource("token").create(account, request)
    return issued.status.token or ""


def _write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read. A token on the terminal would stay in logs and scrollback."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(f"{text}\n")


async def _cancel_and_wait(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
