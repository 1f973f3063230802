"""Protobuf bodies."""

from __future__ import annotations

import pytest

from envtest.data.messages import fields_of, message_of, reader
from envtest.data.schemas import types
from opsdk.apiserver.serializer.protobuf import MAGIC, envelope
from opsdk.errors import DecodeError


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return bytes([number << 3 | 2, len(payload)]) + payload


def test_a_config_map_is_read() -> None:
    """The envelope names the kind; the raw part is the message of that kind, maps and all."""
    entry = field(1, b"key") + field(2, b"value")
    raw = field(1, field(1, b"name")) + field(2, entry)
    body = MAGIC + field(1, field(1, b"v1") + field(2, b"ConfigMap")) + field(2, raw)
    result = envelope(body)
    assert (result.api_version, result.kind) == ("v1", "ConfigMap")
    tree = reader().read(result.raw, message_of("io.k8s.api.core.v1.ConfigMap"))
    assert tree == {"metadata": {"name": "name"}, "data": {"key": "value"}}


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_cut_message_is_refused(cut: int) -> None:
    """However a message is cut, it is a `DecodeError` or a smaller message, never anything else."""
    raw = field(1, field(1, b"name") + field(3, b"space"))
    try:
        reader().read(raw[:-cut], message_of("io.k8s.api.core.v1.ConfigMap"))
    except DecodeError:
        return


def test_other_bytes_are_refused() -> None:
    """A body without the magic is not a protobuf body."""
    with pytest.raises(DecodeError, match="expected prefix"):
        envelope(b"{}")


_OWN_FORM = {"JSON", "Quantity", "FieldsV1", "MicroTime", "Time", "RawExtension", "IntOrString"}
"""Messages that are not objects in JSON."""


def shown(message: str) -> set[str]:
    """The fields that a message has in JSON."""
    result: set[str] = set()
    for fields in (fields_of(message) or {}).values():
        result |= shown(fields.type) if fields.inline else {fields.name}
    return result


def test_messages_have_the_fields_of_their_schemas() -> None:
    """Each protobuf message has the field names and structure of the JSON schema."""
    for name, schema in types().items():
        message, short = message_of(name), name.rpartition(".")[2]
        if fields_of(message) is None or short in _OWN_FORM or short.startswith("JSONSchemaPropsOr"):
            continue
        both = {"apiVersion", "kind"}
        assert shown(message) - both == set(schema.get("properties", ())) - both, name
        kinds = [fields.type.rpartition(",")[2] for fields in (fields_of(message) or {}).values()]
        assert [kind for kind in kinds if "." in kind and fields_of(kind) is None and "ExtraValue" not in kind] == []


def test_maps_hold_messages() -> None:
    """Maps of quantities by name are decoded."""
    entry = field(1, b"pods") + field(2, field(1, b"2"))
    tree = reader().read(field(1, entry), message_of("io.k8s.api.core.v1.ResourceQuotaSpec"))
    assert tree == {"hard": {"pods": "2"}}


def test_embedded_parts_stand_beside_the_rest() -> None:
    """An embedded message, such as a volume source, is inlined in JSON."""
    source = field(2, field(1, b"Memory"))
    tree = reader().read(field(1, b"v") + field(2, source), message_of("io.k8s.api.core.v1.Volume"))
    assert tree == {"name": "v", "emptyDir": {"medium": "Memory"}}
