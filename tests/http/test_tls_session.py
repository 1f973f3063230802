"""TLS without sockets: states, records, cuts and errors."""

from __future__ import annotations

import ssl
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tls_sessions import NAME, contexts, exchange, sessions

from opsdk.http.tls_session import SLICE, TlsSession, TlsState

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
versions = pytest.mark.parametrize("version", VERSIONS)


def cut(data: bytes, positions: list[int]) -> list[bytes]:
    """The same bytes in pieces."""
    borders = [0, *sorted({position % (len(data) + 1) for position in positions}), len(data)]
    return [data[start:end] for start, end in pairwise(borders)]


def transcript(session: TlsSession, pieces: list[bytes]) -> tuple[bytes, TlsState, str | None]:
    """What a session makes of ciphertext: plaintext, state and reason of the error."""
    plaintext = b"".join([session.receive(piece) for piece in pieces])
    return plaintext, session.state, session.error.reason if session.error else None


@versions
@given(
    messages=st.lists(st.integers(1, 40_000), min_size=1, max_size=4),
    positions=st.lists(st.integers(0, 200_000), max_size=8),
    closes=st.booleans(),
)
def test_any_cut_of_the_ciphertext_gives_the_same_plaintext(
    version: ssl.TLSVersion, messages: list[int], positions: list[int], closes: bool
) -> None:
    """Plaintext and state do not depend on how the network splits the bytes."""
    client, server = sessions(contexts(version))
    expected = b"".join([bytes([number]) * size for number, size in enumerate(messages)])
    for number, size in enumerate(messages):
        client.write(bytes([number]) * size)
    if closes:
        client.close()
    state = TlsState.PEER_CLOSED if closes else TlsState.OPEN
    assert transcript(server, cut(client.outgoing.read(), positions)) == (expected, state, None)


@versions
def test_a_handshake_that_is_cut_at_each_position(version: ssl.TLSVersion) -> None:
    """A handshake with a first request completes at its last byte, wherever it is cut."""
    both = contexts(version)
    position = length = 1
    while position <= length:
        client, server = TlsSession(both.client, server_hostname=NAME), TlsSession(both.server, server_side=True)
        client.write(b"request")
        client.start()
        read = b""
        while client.outgoing.pending:
            flight = client.outgoing.read()
            length = max(length, len(flight))
            read += server.receive(flight[:position]) + server.receive(flight[position:])
            client.receive(server.outgoing.read())
        assert (read, server.state) == (b"request", TlsState.OPEN)
        position += 7


@given(position=st.integers(0, 2_000), positions=st.lists(st.integers(0, 2_000), max_size=4))
def test_records_before_an_invalid_one_are_read(position: int, positions: list[int]) -> None:
    """A changed byte ends the session, and every cut gives the same whole records before it."""
    client, server = sessions(contexts())
    records = []
    for number in range(5):
        client.write(b"%d" % number * 200)
        records.append(client.outgoing.read())
    stream = bytearray(b"".join(records))
    position %= len(stream)
    stream[position] ^= 0x40
    whole = position // len(records[0])
    plaintext, state, reason = transcript(server, cut(bytes(stream), positions))
    expected = b"".join([b"%d" % number * 200 for number in range(5)])
    # A longer length field waits for bytes that never come.
    assert state is TlsState.CLOSED or position % len(records[0]) in {3, 4}
    assert plaintext == expected[: whole * 200]
    assert (reason is None) == (state is TlsState.OPEN)
    if state is TlsState.CLOSED:
        assert server.outgoing.pending, "the alert"
        assert server.receive(records[0]) == b""


@given(data=st.binary(min_size=1, max_size=200))
def test_a_server_survives_anything_instead_of_a_client_hello(data: bytes) -> None:
    """The session waits for more or is closed with a reason; nothing raises, and no byte is kept afterwards."""
    server = TlsSession(contexts().server, server_side=True)
    server.start()
    assert server.receive(data) == b""
    assert server.state in {TlsState.HANDSHAKING, TlsState.CLOSED}
    assert (server.error is None) == (server.state is TlsState.HANDSHAKING)
    if server.state is TlsState.CLOSED:
        server.write(b"x")
        server.close()
        assert (server.receive(bytes(1 << 20)), server.backlog) == (b"", [])


@versions
def test_ten_thousand_small_records_in_one_read(version: ssl.TLSVersion) -> None:
    """Ten thousand small records are read in one call and in order."""
    client, server = sessions(contexts(version))
    for number in range(10_000):
        client.write(b"%04d" % number)
    assert server.receive(client.outgoing.read()) == b"".join([b"%04d" % number for number in range(10_000)])


@pytest.mark.parametrize("size", [1 << 14, (1 << 14) + 1, SLICE, SLICE + 1, 1 << 20])
def test_more_than_a_record_holds(size: int) -> None:
    """Plaintext of any length arrives whole, in both directions."""
    client, server = sessions(contexts())
    client.write(bytes(size))
    server.write(bytearray(size))
    assert exchange(client, server) == (bytes(size), bytes(size))


def test_a_too_long_record_ends_the_session() -> None:
    """The header of a too long record ends the session."""
    _, server = sessions(contexts())
    server.receive(b"\x17\x03\x03\xff\xff")
    assert server.state is TlsState.CLOSED
    assert server.error is not None
    # OpenSSL 3.5 has another word for it.
    assert server.error.reason in ("PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


def test_bytes_that_are_written_early_wait() -> None:
    """Plaintext written during the handshake is sent when it is complete, as it was at the time of the write."""
    both = contexts()
    client, server = TlsSession(both.client, server_hostname=NAME), TlsSession(both.server, server_side=True)
    client.start()
    data = bytearray(b"first")
    client.write(data)
    data[:] = b"later"
    client.write(b", second")
    assert client.backlog
    assert exchange(client, server) == (b"", b"first, second")
    assert not client.backlog


@versions
def test_both_sides_close(version: ssl.TLSVersion) -> None:
    """The first close waits for the peer's; what is sent after it is dropped, what was sent before is read."""
    client, server = sessions(contexts(version))
    server.write(b"last")
    client.close()
    client.close()
    client.write(b"ignored")
    assert client.state is TlsState.CLOSING
    assert server.receive(client.outgoing.read()) == b""
    assert server.state is TlsState.PEER_CLOSED
    server.write(b" words")
    assert client.receive(server.outgoing.read()) == b""
    assert client.state is TlsState.CLOSING
    server.close()
    assert server.state is TlsState.CLOSED
    assert client.receive(server.outgoing.read()) == b""
    assert (client.state, client.error, server.error) == (TlsState.CLOSED, None, None)


def test_a_peer_that_has_closed_still_reads() -> None:
    """After the peer's close_notify this side may write until it closes too."""
    client, server = sessions(contexts())
    client.close()
    server.receive(client.outgoing.read() + b"\x17\x03\x03 what comes after it is ignored")
    server.write(b"answer")
    assert (server.state, server.error) == (TlsState.PEER_CLOSED, None)
    assert server.outgoing.pending > len(b"answer")


def test_closing_during_the_handshake_sends_nothing() -> None:
    """A session that closes during the handshake sends no close_notify."""
    server = TlsSession(contexts().server, server_side=True)
    server.start()
    server.close()
    assert (server.state, server.outgoing.pending) == (TlsState.CLOSED, 0)


@versions
def test_a_certificate_that_is_not_trusted(version: ssl.TLSVersion) -> None:
    """The client's error is about the certificate, and the server receives the alert."""
    trusted = contexts(version)
    strange = ssl.create_default_context()
    strange.maximum_version = version
    client, server = TlsSession(strange, server_hostname=NAME), TlsSession(trusted.server, server_side=True)
    client.start()
    exchange(client, server)
    assert isinstance(client.error, ssl.SSLCertVerificationError)
    assert (server.error and server.error.reason) in {"TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_CERTIFICATE_UNKNOWN"}


def test_a_name_that_the_certificate_does_not_have() -> None:
    """The client refuses the server, also if the CA is trusted."""
    both = contexts()
    client, server = TlsSession(both.client, server_hostname="other.test"), TlsSession(both.server, server_side=True)
    client.start()
    exchange(client, server)
    assert isinstance(client.error, ssl.SSLCertVerificationError)
    assert "other.test" in client.error.verify_message


def test_a_client_certificate_that_is_missing() -> None:
    """In TLS 1.3 the client's handshake is complete before the server refuses it, so a later read has the error."""
    both = contexts(client_certificate=True)
    client, server = TlsSession(both.client, server_hostname=NAME), TlsSession(both.server, server_side=True)
    client.start()
    server.receive(client.outgoing.read())
    client.receive(server.outgoing.read())
    assert client.state is TlsState.OPEN
    exchange(client, server)
    assert server.error is not None
    assert (client.state, client.error and client.error.reason) == (
        TlsState.CLOSED,
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    )


def test_the_representation_names_the_state() -> None:
    """The repr of a session has its state."""
    assert repr(TlsSession(contexts().server, server_side=True)) == "<TlsSession handshaking>"
