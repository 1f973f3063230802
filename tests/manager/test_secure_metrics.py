"""The metrics endpoint over TLS with authentication: real sockets, and reviews of a whole API server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from http_servers import Pair, make_ca

from opsdk.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ConfigError, UsageError
from opsdk.http.server.serving_certificate import RELOAD_EVERY, ServingCertificate, self_signed_context
from opsdk.manager.manager import Manager, ManagerOptions

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


@asynccontextmanager
async def serving(client: Any = None, **options: Any) -> AsyncIterator[int]:
    """The port of a manager's metrics."""
    manager = Manager(ManagerOptions(metrics_bind_address="127.0.0.1:0", metrics_secure_serving=True, **options))
    if client is not None:
        manager.use_client(client)
    running = asyncio.create_task(manager.start())
    await manager.wait_ready()
    (server,) = manager.http_servers
    try:
        yield server.port
    finally:
        manager.stop()
        await running


def trusting(ca: Pair | None) -> ssl.SSLContext:
    """A client's TLS that trusts one CA, or anybody."""
    # Not create_default_context: it is strict about certificates of tests since Python 3.13.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is not None:
        context.load_verify_locations(cadata=ca.cert.decode())
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def fetch(port: int, tls: ssl.SSLContext, token: str = "", path: str = "/metrics") -> tuple[int, str, bytes]:
    """Status and body, and the server's certificate."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="127.0.0.1")
    header = f"Authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{header}Connection: close\r\n\r\n".encode())
    data = await reader.read()
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    head, _, body = data.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body, certificate


@pytest.mark.behaviour(133)
async def test_only_users_with_permission_read_the_metrics() -> None:
    """Over TLS, with TokenReview and SubjectAccessReview of the API server: 401, 403 and 200."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        reader, stranger = env.add_user("prometheus"), env.add_user("stranger")
        role = ClusterRole(
            metadata=ObjectMeta(name="metrics"), rules=[PolicyRule(non_resource_urls=["/metrics"], verbs=["get"])]
        )
        await cluster.uncached.create(role)
        await cluster.uncached.create(
            ClusterRoleBinding(
                metadata=ObjectMeta(name="metrics"),
                role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="metrics"),
                subjects=[Subject(kind="User", name="prometheus", api_group="rbac.authorization.k8s.io")],
            )
        )
        async with serving(cluster.uncached, metrics_authentication=True) as port:
            tls = trusting(None)
            assert (await fetch(port, tls))[0] == 401
            assert (await fetch(port, tls, "wrong"))[0] == 401
            assert (await fetch(port, tls, stranger.token))[:2] == (403, "Authorization denied for user stranger\n")
            status, body, _ = await fetch(port, tls, reader.token)
            assert status == 200
            assert "controller_runtime_reconcile_total" in body
            assert (await fetch(port, tls, reader.token, "/other"))[0] == 403


async def test_plain_http_is_refused() -> None:
    """A client without TLS gets an error and no metrics; TLS 1.2 is enough."""
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 400 " in await reader.read()
        writer.close()
        await writer.wait_closed()
        old = trusting(None)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert (await fetch(port, old))[0] == 200


def rotate_in_place(folder: Path, pair: Pair) -> None:
    """Rewrite the files."""
    pair.files(folder, "tls")


def rotate_by_rename(folder: Path, pair: Pair) -> None:
    """Write new files and rename them over the old ones."""
    for new, old in zip(pair.files(folder, "new"), (folder / "tls.crt", folder / "tls.key"), strict=True):
        new.replace(old)


def rotate_by_link(folder: Path, pair: Pair) -> None:
    """Swap a symbolic link, as the kubelet does for Secret volumes."""
    data = folder / "..data2"
    data.mkdir()
    pair.files(data, "tls")
    for name in ("tls.crt", "tls.key"):
        (folder / name).unlink()
        (folder / name).symlink_to(data / name)


@pytest.mark.parametrize("rotate", [rotate_in_place, rotate_by_rename, rotate_by_link])
async def test_a_rotated_certificate_is_used_without_a_restart(tmp_path: Path, rotate: Any) -> None:
    """New connections get the new certificate within the interval; an open connection stays open."""
    ca = make_ca()
    cert, key = ca.issue("metrics", "127.0.0.1").files(tmp_path, "tls")
    async with serving(metrics_cert_file=cert, metrics_key_file=key) as port:
        tls = trusting(ca)
        _, _, first = await fetch(port, tls)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="127.0.0.1")
        rotate(tmp_path, ca.issue("metrics", "127.0.0.1"))
        await asyncio.sleep(RELOAD_EVERY)
        _, _, second = await fetch(port, tls)
        assert second != first
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_a_broken_pair_keeps_the_old_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A key that does not match, garbage and missing files are logged; the old certificate serves on."""
    ca = make_ca()
    pair = ca.issue("metrics", "127.0.0.1")
    cert, key = pair.files(tmp_path, "tls")
    serving_certificate = ServingCertificate(cert, key)
    for damage in (lambda: key.write_bytes(ca.issue("x").key), lambda: cert.write_bytes(b"junk"), cert.unlink):
        damage()
        assert not serving_certificate.refresh(force=True)
    assert serving_certificate.failures == 3
    assert "the old one stays" in caplog.text
    assert pair.key.decode().splitlines()[1] not in caplog.text
    pair.files(tmp_path, "tls")
    assert not serving_certificate.refresh(force=True)
    ca.issue("metrics", "127.0.0.1").files(tmp_path, "tls")
    assert serving_certificate.refresh(force=True)


async def test_files_are_read_at_most_once_in_an_interval(tmp_path: Path) -> None:
    """Many connections do not read the files again and again."""
    cert, key = make_ca().issue("a").files(tmp_path, "tls")
    serving_certificate = ServingCertificate(cert, key)
    serving_certificate.refresh()
    cert.unlink()
    for _ in range(9):
        assert not serving_certificate.refresh()
    assert serving_certificate.failures == 0


async def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    """The manager fails with a `ConfigError` that names the files."""
    options = ManagerOptions(
        metrics_bind_address="127.0.0.1:0", metrics_secure_serving=True, metrics_cert_file=tmp_path / "a.crt",
        metrics_key_file=tmp_path / "a.key",
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"a\.crt"):
        await Manager(options).start()


async def test_a_self_signed_certificate_names_its_host() -> None:
    """A self-signed certificate names its host or address, and is created at each start."""
    for host in ("127.0.0.1", "metrics.example.com"):
        assert isinstance(self_signed_context(host), ssl.SSLContext)
    certificates = set()
    for _ in range(2):
        async with serving() as port:
            certificates.add((await fetch(port, trusting(None)))[2])
    assert len(certificates) == 2


def test_without_the_extra_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A self-signed certificate needs `cryptography`; files do not."""
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    with pytest.raises(ConfigError, match=r"opsdk\[tls\].*metrics_cert_file"):
        self_signed_context("127.0.0.1")


async def test_contradictions_are_refused() -> None:
    """Options without effect, tokens in clear text, and reviews without a client are mistakes."""
    with pytest.raises(UsageError, match="both"):
        ManagerOptions(metrics_cert_file="a")
    with pytest.raises(UsageError, match="metrics_secure_serving"):
        ManagerOptions(metrics_cert_file="a", metrics_key_file="b")
    with pytest.raises(UsageError, match="clear text"):
        ManagerOptions(metrics_bind_address=":8080", metrics_authentication=True)
    ManagerOptions(metrics_bind_address="127.0.0.1:8080", metrics_authentication=True)
    ManagerOptions(metrics_authentication=True)
    with pytest.raises(UsageError, match="use_client"):
        await Manager(ManagerOptions(metrics_authentication=True)).start()
