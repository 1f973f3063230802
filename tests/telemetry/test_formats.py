"""Log records as lines of text and JSON."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import NotFoundError, RequestInfo, UsageError
from opsdk.telemetry.formats import JsonFormatter, TextFormatter, render_fields

FIELDS = {"controller": "website", "controllerKind": "Website", "namespace": "default", "name": "site"}


class Unshowable:
    """An object that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def record(msg: object = "m", *args: object, name: str = "opsdk.x", level: int = 20, **attributes: Any) -> Any:
    """A record as the logging package makes it, at a fixed time."""
    log_record = logging.LogRecord(name, level, "f.py", 1, str(msg), args, attributes.pop("exc_info", None))
    log_record.created = 1_760_000_000.1239
    log_record.__dict__.update(attributes)
    return log_record


def test_json_has_the_keys_of_controller_runtime() -> None:
    """Level, time, logger and message, then the context, the object under its kind, and the fields of the call."""
    line = JsonFormatter().format(record("took %d s", 3, level=30, opsdk=FIELDS, replicas=2, level_=1))
    assert json.loads(line) == {
        "level": "warn",
        "ts": "2025-10-09T08:53:20.123Z",
        "logger": "opsdk.x",
        "msg": "took 3 s",
        **FIELDS,
        "Website": {"name": "site", "namespace": "default"},
        "replicas": 2,
        "level_": 1,
    }


def test_the_context_is_not_repeated_in_the_message() -> None:
    """The formatters remove the context that the record factory appended for foreign handlers."""
    text = render_fields(FIELDS)
    full = record("m%s", text, opsdk=FIELDS, opsdk_context=text)
    assert json.loads(JsonFormatter().format(full))["msg"] == "m"
    assert TextFormatter().format(full).count("controller=website") == 1


def test_an_exception_has_text_and_stacktrace() -> None:
    """JSON has ``error`` in one line and ``stacktrace``; text has the traceback after the line."""
    error = NotFoundError("gone", request=RequestInfo(verb="get", resource="pods", name="web"))
    try:
        raise error
    except NotFoundError:
        failed = record("failed", exc_info=sys.exc_info())
    line = json.loads(JsonFormatter().format(failed))
    assert line["error"] == "get pods web: 404 NotFound: gone"
    assert line["stacktrace"].startswith("Traceback (most recent call last)")
    first, second, *_ = TextFormatter().format(failed).splitlines()
    assert (first, second) == (
        "2025-10-09T08:53:20.123Z INFO    opsdk.x: failed",
        "Traceback (most recent call last):",
    )


def test_a_megabyte_in_an_error_does_not_fill_the_log() -> None:
    """A long traceback keeps its calls and the end of the error, in text and in JSON."""
    error = ValueError("x" * 1_000_000 + " the end")
    try:
        raise error
    except ValueError:
        failed = record("failed", exc_info=sys.exc_info())
    for formatter in (TextFormatter(), JsonFormatter()):
        text = formatter.format(failed)
        assert "test_a_megabyte_in_an_error" in text
        assert "x the end" in text
        assert len(text) < 40_000


def test_text_puts_fields_last() -> None:
    """Fields of the call, then of the context. opsdk's own messages contain the fields of the call already."""
    assert (
        TextFormatter()
        .format(record("m", opsdk={"name": "a b"}, replicas=2, name="shop"))
        .endswith('shop: m replicas=2 name="a b"')
    )
    assert TextFormatter().format(record("m", opsdk={"name": "a"}, error="e")).endswith("opsdk.x: m name=a")


def test_both_formats_have_the_same_time() -> None:
    """RFC 3339 in UTC with milliseconds, from the record."""
    log_record = record()
    assert TextFormatter().format(log_record).split()[0] == json.loads(JsonFormatter().format(log_record))["ts"]


@given(
    st.dictionaries(
        st.text(st.characters(categories=["L"]), min_size=1),
        st.one_of(
            st.text(), st.floats(), st.none(), st.binary(), st.builds(Unshowable), st.sets(st.integers()),
            st.dictionaries(st.one_of(st.text(), st.integers(), st.none(), st.tuples(st.integers())), st.text()),
            st.just("\ud800"), st.just(UsageError("x")),
        ),
    )
)  # fmt: skip
def test_any_value_becomes_one_line_of_valid_json(extra: dict[str, Any]) -> None:
    """Any logged value becomes one line of JSON with the message, and the text formatter does not raise."""
    log_record = record("m", **{f"x{key}": value for key, value in extra.items()})
    line = JsonFormatter().format(log_record)
    assert "\n" not in line
    assert json.loads(line)["msg"] == "m"
    TextFormatter().format(log_record)


@given(st.dictionaries(st.from_regex(r"[a-z]+", fullmatch=True), st.text()))
def test_rendered_fields_stay_on_one_line(fields: dict[str, str]) -> None:
    """No value breaks the line or looks like another field."""
    text = render_fields(fields)
    assert "\n" not in text
    assert "\r" not in text
    if not fields:
        assert not text
