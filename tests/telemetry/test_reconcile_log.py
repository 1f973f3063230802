"""Log lines about reconciles and requests, and log handlers that break."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from http_servers import Server, always, answer

from opsdk.errors import ConflictError, InternalServerError, RequestInfo, TerminalError, UsageError
from opsdk.rest.config import RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport
from opsdk.telemetry.reconcile_log import log_failure, log_result, log_started
from opsdk.telemetry.safe_logger import SafeLogger

UPDATE = RequestInfo(verb="update", resource="configmaps", namespace="default", name="site")


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    yield
    for name in ("opsdk.reconcile", "opsdk.requests"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_an_api_error_is_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """The line has the delay, the request and the response; ``error`` is a field of its own."""
    log_failure(InternalServerError("Internal error occurred: injected", request=UPDATE), wait=0.005)
    (record,) = caplog.records
    assert record.getMessage() == (
        "reconcile failed, retry in 0.005 s: update configmaps default/site: 500 InternalError: "
        "Internal error occurred: injected"
    )
    assert (record.levelno, record.name, record.exc_info) == (logging.ERROR, "opsdk.reconcile", None)
    assert record.__dict__["error"].startswith("update configmaps")


@pytest.mark.parametrize(("wait", "text"), [(81.92, "81.9 s"), (1000.0, "17 min"), (7300.0, "2 h")])
def test_a_long_delay_has_the_unit_of_its_size(wait: float, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """The longest delay of the rate limiter is 17 minutes, not 1e+03 s."""
    log_failure(InternalServerError("no", request=UPDATE), wait=wait)
    assert f"retry in {text}: " in caplog.records[0].getMessage()


def test_a_mistake_in_code_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """The traceback of a `UsageError` names the line to correct."""
    log_failure(UsageError("no name"), wait=1)
    assert caplog.records[0].exc_info is not None


def test_conflicts_log_at_info_and_terminal_errors_at_error(caplog: pytest.LogCaptureFixture) -> None:
    """Conflicts log at INFO; a terminal error logs at ERROR and says that there is no retry."""
    caplog.set_level("INFO")
    log_failure(ConflictError("changed"), wait=1)
    log_failure(ExceptionGroup("g", [ConflictError("changed")]), wait=1)
    log_failure(TerminalError("bad spec"), wait=None)
    assert [r.levelname for r in caplog.records] == ["INFO", "INFO", "ERROR"]
    assert caplog.messages[2] == "reconcile failed, not retried: bad spec"


def test_start_and_result_are_shown_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    """DEBUG on ``opsdk.reconcile`` shows causes and result; INFO shows neither."""
    log_started(["update of Website default/site"])
    assert not caplog.records
    caplog.set_level("DEBUG", logger="opsdk.reconcile")
    log_started(["update of Website default/site", "resync"])
    log_started()
    log_result("requeue after 30 s", 0.25)
    assert caplog.messages == [
        "reconcile starts: update of Website default/site, resync",
        "reconcile starts: no cause recorded",
        "reconcile ended in 0.25 s: requeue after 30 s",
    ]


async def test_requests_are_shown_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    """Each attempt has verb, resource, key, status and seconds; neither query nor body is shown."""
    caplog.set_level("DEBUG", logger="opsdk.requests")
    request = RestRequest(
        "PUT", "/x", query=[("q", "s3cret")], body=b"s3cret", verb="update", group="apps", resource="deployments",
        subresource="status", namespace="ns", name="web",
    )  # fmt: skip
    async with (
        Server(always(answer(503, Retry_After="1"))) as server,
        Transport(RestConfig(host=server.host)) as transport,
    ):
        await transport.send(request, timeout=1.5)
    async with Transport(RestConfig(host="http://127.0.0.1:1")) as transport:
        with pytest.raises(Exception, match="no connection"):
            await transport.send(request, retry=False)
    records = [record for record in caplog.records if record.name == "opsdk.requests"]
    assert records[0].getMessage().startswith("update deployments.apps/status ns/web: 503 in ")
    assert "no response (http://127.0.0.1:1: no connection: " in records[-1].getMessage()
    fields = records[0].__dict__
    assert (fields["verb"], fields["resource"], fields["key"], fields["status"]) == (
        "update", "deployments.apps/status", "ns/web", 503,
    )  # fmt: skip
    assert "s3cret" not in caplog.text


class BrokenHandler(logging.Handler):
    """A handler whose disk is full."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("no space left on device")


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "exception", "critical"])
def test_a_broken_handler_does_not_reach_the_caller(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The exception is printed, and not raised."""
    logger = logging.getLogger("opsdk.test_broken")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler := BrokenHandler())
    safe = SafeLogger(logger.name)
    try:
        for _ in range(9):
            getattr(safe, level)("m %s", 1)
    finally:
        logger.removeHandler(handler)
    assert safe.failures == 9
    assert capsys.readouterr().err.count("OSError: no space left") == 3


def test_the_place_of_the_call_is_the_callers(caplog: pytest.LogCaptureFixture) -> None:
    """File and function of a record are those of the caller, not of the wrapper."""
    SafeLogger("opsdk.x").warning("m")
    assert caplog.records[0].funcName == "test_the_place_of_the_call_is_the_callers"
