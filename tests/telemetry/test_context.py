"""Fields of log lines: carried by tasks, and part of every record."""

from __future__ import annotations

import asyncio
import io
import logging
import logging.handlers
import queue
from collections.abc import Iterator

import pytest

from opsdk.errors import UsageError
from opsdk.telemetry.context import LogContext, add_context_to_records, current, log_context, setup_logging
from opsdk.telemetry.records import ReconcileStarted


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Root handlers, root level and record factory are restored."""
    root, factory = logging.getLogger(), logging.getLogRecordFactory()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.setLogRecordFactory(factory)


def _own_setup(format_: str = "%(levelname)s %(message)s") -> io.StringIO:
    """Logging as a program sets it up that knows nothing of opsdk."""
    stream = io.StringIO()
    root = logging.getLogger()
    root.handlers.clear()
    logging.basicConfig(level=logging.DEBUG, format=format_, stream=stream)
    add_context_to_records()
    return stream


async def test_fields_nest_and_follow_tasks() -> None:
    """Inner fields win and are gone after the block; tasks started inside have them, those outside do not."""

    async def ask() -> dict[str, str]:
        await asyncio.sleep(1)
        return dict(current())

    outside = asyncio.create_task(ask())
    with log_context(controller="c", name="a"):
        with log_context(name="b"):
            inside = asyncio.create_task(ask())
        assert current() == {"controller": "c", "name": "a"}
    assert current() == {}
    assert await inside == {"controller": "c", "name": "b"}
    assert await outside == {}


def test_other_log_configurations_show_controller_and_key() -> None:
    """Messages of opsdk end with the fields under handlers and formats of the program."""
    stream = _own_setup()
    with log_context(controller="website", namespace="default", name="site"):
        logging.getLogger("opsdk.reconcile").error("failed: %s", "100 % sure")
        logging.getLogger("opsdk.cache").info("100 % done")
        logging.getLogger("opsdk.cache").info("%s", {"a": 1})
    logging.getLogger("opsdk.reconcile").error("outside")
    assert stream.getvalue().splitlines() == [
        "ERROR failed: 100 % sure controller=website namespace=default name=site",
        "INFO 100 % done controller=website namespace=default name=site",
        "INFO {'a': 1} controller=website namespace=default name=site",
        "ERROR outside",
    ]


def test_messages_of_other_loggers_stay_unchanged() -> None:
    """The program's own messages are not touched; their records carry the fields for its format."""
    stream = _own_setup("%(message)s|%(opsdk_context)s")
    with log_context(controller="c"):
        logging.getLogger("shop").info("hello")
        logging.getLogger("opsdkish").info("hello", extra={"context": "free", "fields": 1})
    assert stream.getvalue().splitlines() == ["hello| controller=c"] * 2


def test_the_message_template_stays_constant() -> None:
    """Error trackers group records by ``msg``: the fields are arguments, not part of the template."""
    _own_setup()
    templates = set()
    for name in ("a", "b"):
        with log_context(name=name):
            record = logging.getLogger("opsdk.x").makeRecord("opsdk.x", 20, "f", 1, "failed: %s", ("e",), None)
        templates.add(record.msg)
    assert templates == {"failed: %s%s"}


def test_fields_survive_a_queue_handler() -> None:
    """A record that passes through a queue to another thread has its fields once."""
    stream = _own_setup()
    records: queue.Queue[logging.LogRecord] = queue.Queue()
    root = logging.getLogger()
    listener = logging.handlers.QueueListener(records, *root.handlers)
    root.handlers[:] = [logging.handlers.QueueHandler(records)]
    listener.start()
    with log_context(controller="c"):
        logging.getLogger("opsdk.x").info("m")
    listener.stop()
    assert stream.getvalue().count("controller=c") == 1


def test_the_factory_is_added_once_and_keeps_others() -> None:
    """A factory of the program keeps working; adding ours again, also around theirs, repeats no field."""
    stream = _own_setup()
    ours = logging.getLogRecordFactory()

    def theirs(*args: object, **kwargs: object) -> logging.LogRecord:
        record = ours(*args, **kwargs)
        record.team = "a"
        return record

    logging.setLogRecordFactory(theirs)
    add_context_to_records()
    add_context_to_records()
    with log_context(controller="c"):
        logging.getLogger("opsdk.x").info("m")
        assert logging.getLogger("x").makeRecord("x", 20, "f", 1, "m", (), None).__dict__["team"] == "a"
    assert stream.getvalue() == "INFO m controller=c\n"


@pytest.mark.parametrize(("format_", "expected"), [("text", ": m controller=c\n"), ("json", '"controller":"c"')])
def test_setup_writes_both_formats(format_: str, expected: str) -> None:
    """`setup_logging` configures the root logger, and the level of single loggers."""
    stream = io.StringIO()
    logging.getLogger().handlers.clear()
    setup_logging("WARNING", format_, levels={"opsdk.x": "DEBUG"}, stream=stream)  # type: ignore[arg-type]
    try:
        with log_context(controller="c"):
            logging.getLogger("opsdk.x").debug("m")
            logging.getLogger("opsdk.y").info("silent")
    finally:
        logging.getLogger("opsdk.x").setLevel(logging.NOTSET)
    assert expected in stream.getvalue()
    assert "silent" not in stream.getvalue()


def test_a_wrong_setup_says_what_to_write() -> None:
    """Unknown formats and levels are a `UsageError`."""
    with pytest.raises(UsageError, match="'text' or 'json'"):
        setup_logging(format="xml")  # type: ignore[arg-type]
    logging.getLogger().handlers.clear()
    with pytest.raises(UsageError, match="such as 'DEBUG'"):
        setup_logging("LOUD")
    with pytest.raises(UsageError, match="such as 'DEBUG'"):
        setup_logging(levels={"opsdk": "LOUD"})


def test_fields_of_a_reconcile_have_the_names_of_controller_runtime() -> None:
    """Log fields of a reconcile have controller-runtime's names; empty fields are left out."""
    started = ReconcileStarted(controller="c", group="g", kind="K", namespace="ns", name="n", reconcile_id="id")
    assert list(started.log_fields()) == [
        "controller", "controllerGroup", "controllerKind", "namespace", "name", "reconcileID",
    ]  # fmt: skip
    assert ReconcileStarted(controller="c", name="n").log_fields() == {"controller": "c", "name": "n"}


def test_fields_are_computed_only_for_logged_lines() -> None:
    """A block without a log line never calls its function; inner fields come last and win."""
    calls = []

    def fields() -> dict[str, str]:
        calls.append(1)
        return {"name": "outer", "controller": "c"}

    with LogContext(fields):
        assert not calls
        with log_context(name="inner"):
            assert dict(current()) == {"name": "inner", "controller": "c"}
    assert calls == [1]
    assert current() == {}
