"""Protobuf bodies."""

from __future__ import annotations

import pytest

from envtest.tables.messages import READER, message_of
from opsdk.apiserver.protobuf import MAGIC, envelope
from opsdk.errors import DecodeError


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return bytes([number << 3 | 2, len(payload)]) + payload


def test_a_config_map_is_read() -> None:
    """The envelope names the kind; the raw part is the message of that kind, maps and all."""
    entry = field(1, b"key") + field(2, b"value")
    raw = field(1, field(1, b"name")) + field(2, entry)
    body = MAGIC + field(1, field(1, b"v1") + field(2, b"ConfigMap")) + field(2, raw)
    found = envelope(body)
    assert (found.api_version, found.kind) == ("v1", "ConfigMap")
    tree = READER.read(found.raw, message_of("io.k8s.api.core.v1.ConfigMap"))
    assert tree == {"metadata": {"name": "name"}, "data": {"key": "value"}}


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_cut_message_is_refused(cut: int) -> None:
    """However a message is cut, it is a `DecodeError` or a smaller message, never anything else."""
    raw = field(1, field(1, b"name") + field(3, b"space"))
    try:
        READER.read(raw[:-cut], message_of("io.k8s.api.core.v1.ConfigMap"))
    except DecodeError:
        return


def test_other_bytes_are_refused() -> None:
    """A body without the magic is no protobuf body."""
    with pytest.raises(DecodeError, match="expected prefix"):
        envelope(b"{}")
