"""Laws of `opsdk.engine.replay.hidden_values`: what the redactor hides, a replay finds again."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from opsdk.engine.replay.hidden_values import HiddenValues, has_digest
from opsdk.recording.records import ExchangeBegan
from opsdk.recording.redaction import Redactor

PATH = "/api/v1/namespaces/default/secrets"
VALUES = st.text(st.characters(codec="utf-8"), min_size=8, max_size=20)
SECRETS = st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1)


def secret(values: dict[str, str]) -> dict[str, Any]:
    """Return a Secret with values."""
    data = {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "data": data}


def copies(values: dict[str, str]) -> dict[str, Any]:
    """Return a ConfigMap with copies of the values of a Secret: in a text, in base64, and beside each other."""
    [*texts] = values.values()
    return {
        "kind": "ConfigMap",
        "data": {
            "url": f"db://{texts[0]}@db",
            "bundle": base64.b64encode(texts[0].encode()).decode(),
            "all": " and ".join(texts),
            "none": "nothing",
        },
    }


def redacted(*requests: tuple[str, dict[str, Any]], key: bytes = b"key") -> list[bytes]:
    """Return the bodies of requests as a recording has them."""
    records = [
        ExchangeBegan(1, number, "", "PUT", target, "application/json", json.dumps(body).encode())
        for number, (target, body) in enumerate(requests)
    ]
    return [record.body for record in Redactor(key).redact(records)]  # type: ignore[union-attr]


@given(SECRETS)
def test_a_replay_that_writes_the_same_values_matches(values: dict[str, str]) -> None:
    """The Secret and the copies of its values; and a response with them is restored to what the operator wrote."""
    requests = (f"{PATH}/db", secret(values)), ("/api/v1/namespaces/default/configmaps/db", copies(values))
    hidden = HiddenValues()
    for (_, body), recorded in zip(requests, redacted(*requests), strict=True):
        assert hidden.matches(recorded, json.dumps(body).encode())
        assert json.loads(hidden.restored(recorded)) == body


@given(SECRETS, SECRETS)
def test_a_replay_that_generates_other_values_matches(values: dict[str, str], others: dict[str, str]) -> None:
    """What the replay generated is read again in place of what the recorded operator generated."""
    others = {name: others.get(name, f"other-value-{name}") for name in values}
    if len(set(values.values())) != len(set(others.values())):
        return
    recorded = redacted((f"{PATH}/db", secret(values)))[0]
    hidden = HiddenValues()
    if {v: others[n] for n, v in values.items()} != {v: others[n] for n, v in reversed(values.items())}:
        return  # one value became two
    assert hidden.matches(recorded, json.dumps(secret(others)).encode())
    assert json.loads(hidden.restored(recorded)) == secret(others)


@given(SECRETS, st.sampled_from(["name", "key", "more", "kind"]))
def test_another_difference_is_found(values: dict[str, str], change: str) -> None:
    """Only values are hidden: names of keys, other fields and their number are compared."""
    recorded = redacted((f"{PATH}/db", secret(values)))[0]
    body = secret(values)
    match change:
        case "name":
            body["metadata"]["name"] = "other"
        case "key":
            body["data"] = {f"{name}x": value for name, value in body["data"].items()}
        case "more":
            body["data"]["more"] = "YQ=="
        case "kind":
            body["data"] = dict.fromkeys(body["data"])
    assert not HiddenValues().matches(recorded, json.dumps(body).encode())


def test_equal_digests_stand_for_equal_values() -> None:
    """A replay that writes another value each time, where the recorded operator wrote one, differs."""
    first, second, third = redacted(
        (f"{PATH}/db", secret({"a": "password-1"})),
        (f"{PATH}/db", secret({"a": "password-1"})),
        (f"{PATH}/db", secret({"a": "password-2"})),
    )
    hidden = HiddenValues()
    assert hidden.matches(first, json.dumps(secret({"a": "other-password-1"})).encode())
    assert not hidden.matches(second, json.dumps(secret({"a": "other-password-2"})).encode())
    assert not hidden.matches(third, json.dumps(secret({"a": "other-password-1"})).encode())
    assert hidden.matches(third, json.dumps(secret({"a": "other-password-2"})).encode())


def test_a_short_value_is_known_by_its_digest() -> None:
    """A value that is too short to be hidden elsewhere: the replay has read its digest, and sends that."""
    read = json.loads(redacted((f"{PATH}/db", secret({"user": "admin"})))[0])["data"]["user"]
    sent = base64.b64decode(read).decode()
    hidden = HiddenValues()
    assert hidden.matches(b'{"login":"admin@db"}', json.dumps({"login": f"{sent}@db"}, separators=(",", ":")).encode())
    assert not hidden.matches(b'{"login":"other@db"}', json.dumps({"login": f"{sent}@db"}).encode())


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_other_bodies_match_only_themselves(one: bytes, other: bytes) -> None:
    """Without a digest, bytes are compared."""
    if not has_digest(one):
        assert HiddenValues().matches(one, other) == (one == other)
    assert HiddenValues().restored(one) == one


def test_digests_of_values_in_base64_decode() -> None:
    """A copy of a value in base64, such as a caBundle, is base64 in a recording too."""
    recorded = redacted((f"{PATH}/db", secret({"a": "password-1"})), ("/configmaps", copies({"a": "password-1"})))[1]
    assert base64.b64decode(json.loads(recorded)["data"]["bundle"], validate=True).startswith(b"digest:")


def test_the_patch_of_a_webhook_is_compared_as_a_tree() -> None:
    """It is base64 of JSON, so a digest in it is not the digest of a text."""

    def answer(value: str, path: str = "/data/p") -> bytes:
        operations = json.dumps([{"op": "add", "path": path, "value": value}]).encode()
        return json.dumps(
            {"response": {"patchType": "JSONPatch", "patch": base64.b64encode(operations).decode()}}
        ).encode()

    hidden_value = f"digest:{64 * '0'}"
    assert HiddenValues().matches(answer(hidden_value), answer("generated"))
    assert not HiddenValues().matches(answer(hidden_value), answer("generated", "/data/q"))
