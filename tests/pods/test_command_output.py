"""The messages of a remote command."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import (
    ConnectionLostError,
    DecodeError,
    InternalServerError,
    OpsdkError,
    RequestInfo,
    ResponseLimitError,
)
from opsdk.pods.command_output import CommandMessages, CommandOutput, ExecResult, OutputName, exit_code

REQUEST = RequestInfo(verb="create", resource="pods", subresource="exec")
SUCCESS = {"metadata": {}, "status": "Success"}
FAILED = {
    "status": "Failure",
    "reason": "NonZeroExitCode",
    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
}
PIECES = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=5)), max_size=8)


@given(PIECES, st.integers(0, 200), st.sampled_from([(SUCCESS, 0), (FAILED, 3)]))
def test_output_does_not_depend_on_the_messages(
    pieces: list[tuple[int, bytes]], cut: int, end: tuple[Any, int]
) -> None:
    """The bytes of a channel are joined in order, and a Status may arrive in two messages."""
    output, messages = CommandOutput(1000), CommandMessages()
    for channel, data in pieces:
        if (piece := messages.feed(bytes((channel,)) + data)) is not None:
            output.add(*piece)
    status = msgspec.json.encode(end[0])
    cut %= len(status)
    assert messages.feed(b"\x03" + status[:cut]) is None
    assert not messages.is_complete
    assert messages.feed(b"\x03" + status[cut:]) is None
    ended = messages.is_complete
    joined = [b"".join(data for channel, data in pieces if channel == number) for number in (1, 2)]
    assert ended
    assert output.result(messages.exit_status(REQUEST)) == ExecResult(status=end[1], stdout=joined[0], stderr=joined[1])


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=5))), st.integers(0, 20))
def test_output_is_bounded(pieces: list[tuple[OutputName, bytes]], limit: int) -> None:
    """More bytes than the limit are an error that names the option, of stdout and stderr together."""
    output, size = CommandOutput(limit), 0
    for name, data in pieces:
        size += len(data)
        if size > limit:
            with pytest.raises(ResponseLimitError, match="max_output_bytes"):
                output.add(name, data)
            return
        output.add(name, data)


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_any_bytes_give_a_result_or_a_typed_error(messages: list[bytes]) -> None:
    """No message of a server raises an error that is not of the SDK."""
    decoder = CommandMessages()
    try:
        for message in messages:
            decoder.feed(message)
        decoder.exit_status(REQUEST)
    except OpsdkError:
        pass


def test_an_end_without_status_is_an_error() -> None:
    """A lost connection, an unreadable Status and one without end are typed errors."""
    with pytest.raises(ConnectionLostError, match="before the exit status"):
        CommandMessages().exit_status(REQUEST)
    messages = CommandMessages()
    messages.feed(b"\x03{no}")
    with pytest.raises(DecodeError, match="no"):
        messages.exit_status(REQUEST)
    with pytest.raises(DecodeError, match="more than"):
        CommandMessages().feed(b"\x03" + b"x" * 100_000)


@pytest.mark.parametrize(
    "details", [None, [], {}, {"causes": None}, {"causes": [1]}, {"causes": [{"reason": "ExitCode", "message": "x"}]}]
)
def test_a_status_without_exit_code_is_an_error(details: object) -> None:
    """Other reasons, and an exit code that is no number, raise the error of the Status."""
    with pytest.raises(InternalServerError):
        exit_code({"status": "Failure", "reason": "InternalError", "code": 500}, REQUEST)
    with pytest.raises(OpsdkError):
        exit_code({"status": "Failure", "reason": "NonZeroExitCode", "details": details}, REQUEST)
