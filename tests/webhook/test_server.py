"""The webhook server: paths, containment, metrics, and TLS on real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from http_servers import Pair, make_ca
from prometheus_client import CollectorRegistry
from webhook_reviews import OldSite, Site, post, review, site_tree

from opsdk.errors import ConfigError, UsageError
from opsdk.http.server.serving_certificate import RELOAD_EVERY
from opsdk.manager.manager import Manager, ManagerOptions
from opsdk.manager.phases import Phase
from opsdk.telemetry.context import add_context_to_records
from opsdk.telemetry.prometheus import PrometheusHook
from opsdk.webhook.admission import AdmissionRequest, AdmissionResponse, allowed, denied
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from opsdk.webhook.options import WebhookServerOptions
from opsdk.webhook.server import WebhookServer
from opsdk.webhook.webhook import AdmissionWebhook


async def allow(request: AdmissionRequest) -> AdmissionResponse:
    """Allow every request."""
    return allowed()


def serving(handle: Any, **options: Any) -> tuple[WebhookServer, PrometheusHook]:
    """A server with one handler at ``/w``, and its metrics."""
    metrics = PrometheusHook(CollectorRegistry())
    server = WebhookServer(hook=metrics)
    server.register("/w", AdmissionWebhook(handle, **options))
    return server, metrics


def values(metrics: PrometheusHook) -> dict[str, float]:
    """Each line of the metrics about webhooks."""
    lines = [line for line in metrics.expose().decode().splitlines() if "webhook" in line and line[0] != "#"]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


# ------------------------------------------------------------------ containment
@pytest.mark.behaviour(126)
async def test_a_handler_that_raises_is_answered_with_500(caplog: pytest.LogCaptureFixture) -> None:
    """The review has no traceback, the log has it, the panic is counted, and nothing stays in flight."""

    async def crash(request: AdmissionRequest) -> AdmissionResponse:
        raise ZeroDivisionError("of course")

    server, metrics = serving(crash)
    status, answer = await post(server, "/w", review(object=site_tree()))
    response = answer["response"]
    assert (status, response["allowed"], response["uid"]) == (200, False, "u1")
    assert response["status"]["code"] == 500
    assert response["status"]["message"] == "panic: ZeroDivisionError: of course [recovered]"
    assert "in crash" in caplog.text
    samples = values(metrics)
    assert samples["controller_runtime_webhook_panics_total"] == 1
    assert samples["controller_runtime_conversion_webhook_panics_total"] == 0
    assert samples['controller_runtime_webhook_requests_total{code="200",webhook="/w"}'] == 1
    assert samples['controller_runtime_webhook_requests_in_flight{webhook="/w"}'] == 0
    assert samples['controller_runtime_webhook_latency_seconds_count{webhook="/w"}'] == 1


async def test_log_lines_of_a_rule_have_the_fields_of_the_request(caplog: pytest.LogCaptureFixture) -> None:
    """Lines of the rule's own loggers too, and the line with the traceback."""
    add_context_to_records()

    async def crash(request: AdmissionRequest) -> AdmissionResponse:
        logging.getLogger("shop").warning("looking")
        raise RuntimeError

    await post(serving(crash)[0], "/w", review(name="a", namespace="default", subResource="status"))
    fields = {
        "webhook": "/w",
        "operation": "CREATE",
        "resource": "sites.demo.opsdk.dev/status",
        "namespace": "default",
        "name": "a",
        "user": "ann",
        "requestID": "u1",
    }
    assert [(record.name, record.opsdk) for record in caplog.records] == [  # type: ignore[attr-defined]
        ("shop", fields),
        ("opsdk.webhook.calls", fields),
    ]


@pytest.mark.behaviour(126)
async def test_a_handler_that_cancels_itself_is_answered_with_500() -> None:
    """The request ends with an answer."""

    async def cancel(request: AdmissionRequest) -> AdmissionResponse:
        raise asyncio.CancelledError

    _, answer = await post(serving(cancel)[0], "/w", review())
    assert answer["response"]["status"]["message"] == "panic: CancelledError [recovered]"


UNSENDABLE = AdmissionResponse(allowed=True, patches=({"op": "add", "path": "/x", "value": object()},))


@pytest.mark.parametrize("nonsense", [None, True, {"allowed": True}, UNSENDABLE])
async def test_a_handler_that_returns_nonsense_is_answered_with_500(nonsense: Any) -> None:
    """A handler's return value that is not a valid response gets the code 500."""

    async def answer_nonsense(request: AdmissionRequest) -> Any:
        return nonsense

    _, answer = await post(serving(answer_nonsense)[0], "/w", review())
    assert (answer["response"]["allowed"], answer["response"]["status"]["code"]) == (False, 500)


@pytest.mark.behaviour(126, better="a handler that hangs or cancels itself is answered too")
async def test_a_handler_that_hangs_is_answered_after_its_timeout() -> None:
    """The review says how long it waited; the handler is cancelled."""
    cancelled = asyncio.Event()

    async def hang(request: AdmissionRequest) -> AdmissionResponse:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return allowed()

    server, metrics = serving(hang, timeout=7)
    began = asyncio.get_running_loop().time()
    _, answer = await post(server, "/w", review())
    assert asyncio.get_running_loop().time() - began == pytest.approx(7)
    assert answer["response"]["status"]["code"] == 504
    assert answer["response"]["status"]["message"] == "the webhook did not return within 7 s"
    assert cancelled.is_set()
    assert values(metrics)["controller_runtime_webhook_panics_total"] == 0


async def test_a_timeout_of_the_handlers_own_is_not_the_webhooks() -> None:
    """A timeout that a handler sets counts as an exception of the handler."""

    async def impatient(request: AdmissionRequest) -> AdmissionResponse:
        async with asyncio.timeout(1):
            await asyncio.sleep(5)
        return allowed()

    _, answer = await post(serving(impatient)[0], "/w", review())
    assert answer["response"]["status"]["message"] == "panic: TimeoutError [recovered]"


async def test_requests_in_flight_are_counted() -> None:
    """The gauge follows the requests, also when a client leaves."""
    release = asyncio.Event()

    async def wait(request: AdmissionRequest) -> AdmissionResponse:
        await release.wait()
        return allowed()

    server, metrics = serving(wait)
    first, second = (asyncio.create_task(post(server, "/w", review())) for _ in range(2))
    await asyncio.sleep(0.1)
    name = 'controller_runtime_webhook_requests_in_flight{webhook="/w"}'
    assert values(metrics)[name] == 2
    first.cancel()
    await asyncio.wait([first])
    assert values(metrics)[name] == 1
    release.set()
    await second
    assert values(metrics)[name] == 0


async def test_a_webhook_of_ones_own_that_raises_is_answered_with_500() -> None:
    """The server serves on; the status is counted."""

    class Broken:
        async def serve(self, request: Any) -> Any:
            raise RuntimeError

    server, metrics = serving(allow)
    server.register("/broken", Broken())
    assert (await post(server, "/broken", b""))[0] == 500
    assert (await post(server, "/other", b""))[0] == 404
    assert values(metrics)['controller_runtime_webhook_requests_total{code="500",webhook="/broken"}'] == 1
    assert (await post(server, "/w", review()))[1]["response"]["allowed"]


# ------------------------------------------------------------------ paths
@pytest.mark.behaviour(127)
def test_a_path_is_registered_once() -> None:
    """A second registration names the path."""
    server, _ = serving(allow)
    with pytest.raises(UsageError, match="can't register duplicate path: /w"):
        server.register("/w", AdmissionWebhook(allow))


@pytest.mark.parametrize("path", ["", "w", "/w/", "//", "/a.b", "/a b", "/w\n"])
def test_a_path_has_segments_of_letters_and_digits(path: str) -> None:
    """A webhook path has segments of letters, digits, dashes and underscores; others are errors."""
    with pytest.raises(UsageError, match="is not a webhook path"):
        WebhookServer().register(path, AdmissionWebhook(allow))


def test_the_root_and_nested_paths_are_accepted() -> None:
    """The root and nested paths are valid webhook paths."""
    server = WebhookServer()
    for path in ("/", "/a", "/a-b/c_d/9"):
        server.register(path, AdmissionWebhook(allow))
    assert server.webhook_paths() == ("/", "/a", "/a-b/c_d/9")


def test_conversions_share_their_path() -> None:
    """The path is taken after the first converter."""
    server = WebhookServer()
    converter = HubSpokeConverter(Site, Spoke(OldSite, lambda _: Site(spec=None), lambda _: OldSite(spec=None)))  # type: ignore[arg-type]
    server.register_converter(converter)
    with pytest.raises(UsageError, match="duplicate path: /convert"):
        server.register("/convert", AdmissionWebhook(allow))


# ------------------------------------------------------------------ sockets
@asynccontextmanager
async def running(server: WebhookServer, **options: Any) -> AsyncIterator[Manager]:
    """A manager that runs the server."""
    manager = Manager(ManagerOptions(**options))
    manager.add(server)
    task = asyncio.create_task(manager.start())
    waiting = asyncio.create_task(manager.wait_ready())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    try:
        if task.done():
            waiting.cancel()
            await task
        yield manager
    finally:
        manager.stop()
        await asyncio.wait([task])


def options(folder: Path, pair: Pair, **more: Any) -> WebhookServerOptions:
    """Options with a certificate in `folder`."""
    pair.files(folder, "tls")
    return WebhookServerOptions(host="127.0.0.1", port=0, cert_dir=folder, **more)


def trusting(ca: Pair, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """A client's TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=ca.cert.decode())
    if client is not None:
        context.load_cert_chain(*client)
    return context


async def call(port: int, tls: ssl.SSLContext, body: bytes) -> tuple[Any, bytes]:
    """The answer to one request, and the server's certificate."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="127.0.0.1")
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    try:
        return await exchange(reader, writer, body), certificate
    finally:
        writer.close()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> Any:
    """Post a review over an open connection."""
    head = (
        f"POST /w?timeout=10s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    writer.write(head.encode() + b"\r\n" + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length"))
    return json.loads(await reader.readexactly(int(length.split(b":")[1])))


@pytest.mark.behaviour(127)
async def test_every_replica_serves_over_tls(tmp_path: Path) -> None:
    """Every replica serves webhooks over TLS without leadership, also those registered after the start."""

    class NeverElected:
        async def run(self) -> None:
            await asyncio.Event().wait()

        async def wait_elected(self) -> None:
            await asyncio.Event().wait()

        async def release(self) -> None: ...

    ca = make_ca()
    server = WebhookServer(options(tmp_path, ca.issue("hooks", "127.0.0.1")))
    with pytest.raises(UsageError, match="webhook server has not been started yet"):
        await server.check_started()
    manager = Manager(election=NeverElected())
    manager.add(server)

    class AfterWebhooks:
        async def start(self) -> None:
            await server.check_started()
            await asyncio.Event().wait()

    manager.add(AfterWebhooks(), phase=Phase.CACHES)
    manager.add_readyz_check("webhooks", server.check_started)
    task = asyncio.create_task(manager.start())
    try:
        await manager.wait_ready()
        await server.check_started()
        server.register("/w", AdmissionWebhook(allow))
        answer, _ = await call(server.port, trusting(ca), review())
        assert answer["response"]["allowed"]
        assert not manager.is_elected
    finally:
        manager.stop()
        await task
    with pytest.raises(UsageError):
        await server.check_started()


@pytest.mark.behaviour(122)
async def test_a_body_that_is_too_large_is_answered_over_a_socket(tmp_path: Path) -> None:
    """A client that sends everything gets the review with 413."""
    ca = make_ca()
    server = WebhookServer(options(tmp_path, ca.issue("hooks", "127.0.0.1")))
    server.register("/w", AdmissionWebhook(allow))
    async with running(server):
        answer, _ = await call(server.port, trusting(ca), b" " * (7 << 20))
    assert answer["response"]["status"]["code"] == 413


@pytest.mark.behaviour(128)
async def test_clients_need_a_certificate_of_the_client_ca(tmp_path: Path) -> None:
    """No certificate and one of another CA fail; one of the CA is served."""
    ca, stranger = make_ca(), make_ca()
    (tmp_path / "clients.crt").write_bytes(ca.cert)
    server = WebhookServer(options(tmp_path, ca.issue("hooks", "127.0.0.1"), client_ca_name="clients.crt"))
    server.register("/w", AdmissionWebhook(allow))
    known_client, unknown = (
        ca.issue("apiserver").files(tmp_path, "known"),
        stranger.issue("x").files(tmp_path, "unknown"),
    )
    async with running(server):
        for client in (None, unknown):
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await call(server.port, trusting(ca, client), review())
        answer, _ = await call(server.port, trusting(ca, known_client), review())
    assert answer["response"]["allowed"]


@pytest.mark.behaviour(129)
@pytest.mark.parametrize("way", ["write", "rename", "link", "recreate"])
async def test_a_rotated_certificate_is_used_for_new_connections(tmp_path: Path, way: str) -> None:
    """A rotated certificate serves new connections within the interval, and a broken pair keeps the old one."""
    ca = make_ca()
    metrics = PrometheusHook(CollectorRegistry())
    server = WebhookServer(options(tmp_path, ca.issue("hooks", "127.0.0.1")), hook=metrics)
    server.register("/w", AdmissionWebhook(allow))
    async with running(server):
        tls = trusting(ca)
        _, first = await call(server.port, tls, review())
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls, server_hostname="127.0.0.1")
        rotate(tmp_path, ca.issue("hooks", "127.0.0.1"), way)
        await asyncio.sleep(RELOAD_EVERY)
        _, second = await call(server.port, tls, review())
        (tmp_path / "tls.key").write_bytes(b"junk")
        await asyncio.sleep(RELOAD_EVERY)
        _, third = await call(server.port, tls, review())
        assert (await exchange(reader, writer, review()))["response"]["allowed"]
        writer.close()
    assert first != second == third
    assert b"certwatcher_read_certificate_errors_total 1.0" in metrics.expose()


def rotate(folder: Path, pair: Pair, way: str) -> None:
    """Replace the files as kubelet, cert-manager or an editor does."""
    names = ("tls.crt", "tls.key")
    if way == "write":
        pair.files(folder, "tls")
        return
    if way == "rename":
        for name, new in zip(names, pair.files(folder, "new"), strict=True):
            new.replace(folder / name)
        return
    for name in names:
        (folder / name).unlink()
    data = folder / "..data" if way == "link" else folder
    data.mkdir(exist_ok=True)
    pair.files(data, "tls")
    if way == "link":
        for name in names:
            (folder / name).symlink_to(data / name)


async def test_a_missing_certificate_stops_the_manager(tmp_path: Path) -> None:
    """A missing certificate stops the manager with an error that names the files."""
    server = WebhookServer(WebhookServerOptions(host="127.0.0.1", port=0, cert_dir=tmp_path))
    with pytest.raises(ConfigError, match=r"tls\.crt"):
        async with running(server):
            pass


async def test_a_stop_waits_for_open_requests(tmp_path: Path) -> None:
    """The API server gets the answer to a request that is being decided."""
    ca = make_ca()
    began = asyncio.Event()

    async def slow(request: AdmissionRequest) -> AdmissionResponse:
        began.set()
        await asyncio.sleep(3)
        return denied("late")

    server = WebhookServer(options(tmp_path, ca.issue("hooks", "127.0.0.1")))
    server.register("/w", AdmissionWebhook(slow))
    async with running(server) as manager:
        calling = asyncio.create_task(call(server.port, trusting(ca), review()))
        await began.wait()
        manager.stop()
        answer, _ = await calling
    assert answer["response"]["status"]["message"] == "late"
