"""A server, a client that counts its requests, and one valid object of each built-in kind."""

from __future__ import annotations

import base64
import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from envtest.data.schemas import types
from envtest.data.versions import DEFAULT, VERSIONS
from opsdk.aio.fence import FENCE
from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured, origin_of
from opsdk.children.kinds import built_in_kinds
from opsdk.client.client import Client
from opsdk.client.decorators.intercept import intercept
from opsdk.client.operations import Get, List, Operation
from opsdk.cluster.cluster import Cluster
from opsdk.structured_merge.value import JsonObject

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
certificates = pytest.importorskip("envtest.plane.certificates")


class NewTerm:
    """A fence of a leader that may have followed another one."""

    is_term_new = True

    def check(self, action: str) -> None:
        """Allow every write."""


@contextmanager
def new_term() -> Iterator[None]:
    """Write as a new leader does."""
    token = FENCE.set(NewTerm())
    try:
        yield
    finally:
        FENCE.reset(token)


class CountedClient:
    """A client whose reads stand for a cache, the writes that it sent, and the reads that go past a cache."""

    def __init__(self, cluster: Cluster) -> None:
        self.writes: list[str] = []
        self.uncached_reads: list[str] = []
        self.cluster = cluster
        self.uncached = cluster.uncached
        self.client: Client = intercept(cluster.uncached, self._count)

    async def _count(self, operation: Operation, proceed: Any) -> Any:
        if not isinstance(operation, Get | List):
            self.writes.append(type(operation).__name__)
        elif operation.options.uncached:
            self.uncached_reads.append(type(operation).__name__)
        return await proceed(operation)


@asynccontextmanager
async def counted_client(**options: Any) -> AsyncIterator[CountedClient]:
    """A counting client of a fresh server."""
    async with environment.Environment(**options) as env, Cluster(env.config) as cluster:
        yield CountedClient(cluster)


def gvk_of_tree(tree: JsonObject) -> GroupVersionKind:
    """The kind of a tree."""
    return GroupVersionKind.parse(tree["apiVersion"], tree["kind"])


def samples() -> Iterator[JsonObject]:
    """One valid object of each kind, with name and namespace."""
    for tree in yaml.safe_load((Path(__file__).parent / "samples.yaml").read_text()):
        yield prepared(tree)


def prepared(tree: JsonObject) -> JsonObject:
    """A copy with a name, and a namespace if the kind has one."""
    tree = copy.deepcopy(tree)
    meta = tree.setdefault("metadata", {})
    meta.setdefault("name", "a")
    built_in = built_in_kinds().get(gvk_of_tree(tree))
    if built_in is None or built_in.namespaced:
        meta.setdefault("namespace", "default")
    if tree["kind"] == "CertificateSigningRequest":
        tree["spec"]["request"] = signing_request()
    if tree["kind"] == "ClusterTrustBundle":
        tree["spec"]["trustBundle"] = certificate()
    return tree


def desired(tree: JsonObject) -> Unstructured:
    """A desired object as a reconciler makes it."""
    return Unstructured.from_tree(copy.deepcopy(tree))


async def live_tree(client: Client, tree: JsonObject) -> JsonObject:
    """The object as the server has it."""
    key = ObjectKey(tree["metadata"].get("namespace", ""), tree["metadata"]["name"])
    origin = origin_of(await client.get(unstructured_kind(tree["apiVersion"], tree["kind"]), key))
    assert origin is not None
    return origin


def state(live: JsonObject) -> JsonObject:
    """What an apply can change. Controllers of the server write statuses meanwhile."""
    entries = [e for e in live["metadata"].get("managedFields", ()) if not e.get("subresource")]
    metadata = {**live["metadata"], "managedFields": entries, "resourceVersion": "", "generation": 0}
    return {**live, "metadata": metadata, "status": {}}


def serving(tree: JsonObject) -> AbstractAsyncContextManager[CountedClient]:
    """A counting client of a fresh server of the default version, or of the first one that has the kind."""
    gvk = gvk_of_tree(tree)
    versions = (version for version in (DEFAULT, *VERSIONS) if types(version).name_of(*gvk))
    return counted_client(kubernetes=next(versions))


@cache
def certificate() -> str:
    """The certificate of an authority in PEM."""
    return certificates.Authority.load_or_create(None).pair.cert.decode()


@cache
def signing_request() -> str:
    """A certificate request in PEM, in base64 with line ends."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.encodebytes(request.public_bytes(serialization.Encoding.PEM)).decode()
