"""Channel messages of each subprotocol: round trips, and invalid messages."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.streams.channels import (
    COMMANDS,
    PORTS,
    Dialect,
    Piece,
    encode_status,
    exit_status,
    failure,
    read_size,
)

DIALECTS = st.sampled_from([*COMMANDS.values(), *PORTS.values()])


@given(DIALECTS, st.integers(0, 9), st.binary(max_size=100))
def test_bytes_come_through(dialect: Dialect, channel: int, data: bytes) -> None:
    """On every channel that text can name, too."""
    assert dialect.read(dialect.write(channel, data)) == Piece(channel=channel, data=data)


@given(DIALECTS, st.one_of(st.binary(max_size=50), st.text(max_size=50)))
def test_reading_never_fails(dialect: Dialect, message: bytes | str) -> None:
    """Any message of a client is a piece or ignored."""
    piece = dialect.read(message)
    assert piece is None or isinstance(piece, Piece)


def test_only_v5_can_close_a_channel() -> None:
    """Only protocol v5 has the channel that closes another one."""
    assert COMMANDS["v5.channel.k8s.io"].read(b"\xff\x00") == Piece(channel=0, ends=True)
    assert COMMANDS["v5.channel.k8s.io"].read(b"\xff") is None
    assert COMMANDS["v4.channel.k8s.io"].read(b"\xff\x00") == Piece(channel=255, data=b"\x00")


@pytest.mark.parametrize("protocol", COMMANDS)
def test_the_end_is_reported_in_its_form(protocol: str) -> None:
    """A Status where the version has one, else words, or nothing."""
    dialect = COMMANDS[protocol]
    statuses = (exit_status(0), exit_status(3), failure("no"))
    good, bad, broken = (encode_status(status, as_object=dialect.status) for status in statuses)
    if not dialect.status:
        assert (good, bad) == (b"", b"command terminated with non-zero exit code: exit status 3")
        assert broken == b"Internal error occurred: no"
        return
    assert json.loads(good) == {"metadata": {}, "status": "Success"}
    document = json.loads(bad)
    assert (document["reason"], document["details"]["causes"]) == (
        "NonZeroExitCode",
        [{"reason": "ExitCode", "message": "3"}],
    )
    assert json.loads(broken)["reason"] == "InternalError"


def test_sizes_are_read_if_they_are_sizes() -> None:
    """Columns and rows."""
    assert read_size(b'{"Width":80,"Height":24}') == (80, 24)
    for other in (b"", b"[]", b'{"Width":80}', b'{"Width":"x","Height":1}', b"\xff"):
        assert read_size(other) is None
