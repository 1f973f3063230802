"""Secrets and tokens: no record has them, wherever they come and however they are cut."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.recording.records import (
    Answered,
    CachedObjects,
    CallBegan,
    Called,
    ExchangeBegan,
    Failed,
    Received,
    Record,
    Returned,
)
from opsdk.recording.redaction import Redactor

PASSWORD = "correct-horse-battery"
ENCODED = base64.b64encode(PASSWORD.encode()).decode()
SECRET = {
    "kind": "Secret",
    "apiVersion": "v1",
    "metadata": {
        "name": "db",
        "namespace": "default",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": f'{{"stringData":{{"p":"{PASSWORD}"}}}}'},
    },
    "data": {"password": ENCODED},
}
PATH = "/api/v1/namespaces/default/secrets"


def redacted(*records: Record) -> bytes:
    """Return the bytes of records after one redactor."""
    redactor = Redactor(b"key")
    return b"".join(repr(record).encode() for record in redactor.redact(records))


def check_hidden(text: bytes) -> None:
    """Neither form of the password is in a text."""
    assert PASSWORD.encode() not in text
    assert ENCODED.encode() not in text
    assert b"eyJhbGciOi" not in text


def request(target: str, body: object = None, *, method: str = "GET") -> ExchangeBegan:
    """Return a request with a JSON body."""
    content = b"" if body is None else json.dumps(body).encode()
    return ExchangeBegan(1, 0, "localhost:443", method, target, "application/json", content)


@pytest.mark.parametrize(
    "body",
    [
        SECRET,
        {"data": {"password": ENCODED}},
        {"stringData": {"password": PASSWORD}},
        [{"op": "replace", "path": "/data/password", "value": ENCODED}],
    ],
    ids=["object", "merge patch", "string data", "JSON patch"],
)
def test_writes(body: object) -> None:
    """Objects and patches; the names of the keys stay."""
    text = redacted(request(f"{PATH}/db", body, method="PATCH"))
    check_hidden(text)
    assert b"password" in text or b"/data/password" in text


@pytest.mark.parametrize("body", [b"\xff\x00k8s", f"password: {PASSWORD}".encode()])
def test_other_bodies_of_secrets_are_dropped(body: bytes) -> None:
    """Protobuf, YAML."""
    check_hidden(redacted(request(PATH), Received(2, 0, body)))


def test_lists() -> None:
    """Of all namespaces too."""
    items = {"kind": "SecretList", "apiVersion": "v1", "items": [SECRET, SECRET]}
    text = redacted(request("/api/v1/secrets?limit=500"), Received(2, 0, json.dumps(items).encode()))
    check_hidden(text)


@given(st.lists(st.integers(min_value=1, max_value=900), max_size=12))
def test_watches_at_every_cut(cuts: list[int]) -> None:
    """An event may come in any parts. The whole events are there."""
    events = b"".join(json.dumps({"type": kind, "object": SECRET}).encode() + b"\n" for kind in ("ADDED", "MODIFIED"))
    redactor, place, received = Redactor(b"key"), 0, b""
    redactor.redact([request(f"{PATH}?watch=true&resourceVersion=1")])
    for cut in [*sorted(cuts), len(events)]:
        [record] = redactor.redact([Received(2, 0, events[place : max(cut, place)])])
        assert isinstance(record, Received)
        place, received = max(cut, place), received + record.data
    check_hidden(received)
    lines = [json.loads(line) for line in received.splitlines()]
    assert [line["type"] for line in lines] == ["ADDED", "MODIFIED"]
    assert lines[0]["object"]["metadata"]["name"] == "db"


@pytest.mark.slow
def test_copies_in_other_objects() -> None:
    """A value of a Secret that was seen is hidden in other objects, plain and in base64."""
    config_map = {"kind": "ConfigMap", "data": {"url": f"db://{PASSWORD}@db", "encoded": ENCODED}}
    text = redacted(
        request(f"{PATH}/db"),
        Received(2, 0, json.dumps(SECRET).encode()),
        request("/api/v1/namespaces/default/configmaps", config_map, method="POST"),
        Returned(3, 2, msgspec.msgpack.encode(PASSWORD)),
    )
    check_hidden(text)
    assert b"db://digest:" in text


def test_copies_in_calls() -> None:
    """Results, arguments and errors of other systems. What is left is MessagePack."""
    user = {"name": "admin", "keys": [PASSWORD, ENCODED.encode()]}
    records: list[Record] = [
        request(f"{PATH}/db"),
        Received(2, 0, json.dumps(SECRET).encode()),
        CallBegan(3, 2, "db.create", msgspec.msgpack.encode([user])),
        Returned(4, 2, msgspec.msgpack.encode(user)),
        Failed(4, 3, "builtins:ValueError", f"bad password {PASSWORD}"),
    ]
    *_, call, result, failure = Redactor(b"key").redact(records)
    check_hidden(repr((call, result, failure)).encode())
    assert isinstance(result, Returned)
    assert isinstance(call, CallBegan)
    assert msgspec.msgpack.decode(call.arguments) == [msgspec.msgpack.decode(result.value)]
    assert msgspec.msgpack.decode(result.value)["name"] == "admin"


def test_values_that_are_pushed_out() -> None:
    """A body has its digests also if many Secrets follow it in the same write of the recorder."""
    others = [
        Received(3, 1, json.dumps({**SECRET, "data": {"p": base64.b64encode(b"password-%d" % n).decode()}}).encode())
        for n in range(100)
    ]
    copy = request("/api/v1/namespaces/default/configmaps", {"data": {"p": PASSWORD}}, method="POST")
    records: list[Record] = [request(f"{PATH}/db"), Received(2, 0, json.dumps(SECRET).encode()), copy]
    check_hidden(redacted(*records, ExchangeBegan(3, 1, "", "GET", PATH), *others))


def test_tokens() -> None:
    """Of TokenRequests and TokenReviews, in both directions."""
    token = {"status": {"token": "eyJhbGciOiJSUzI1NiJ9.e30.x"}, "spec": {"token": "eyJhbGciOiJSUzI1NiJ9.e30.x"}}
    for target in ("/api/v1/namespaces/a/serviceaccounts/b/token", "/apis/authentication.k8s.io/v1/tokenreviews"):
        check_hidden(redacted(request(target, token, method="POST"), Received(2, 0, json.dumps(token).encode())))


def test_reviews_of_webhooks() -> None:
    """A review of a Secret has the old and the new object."""
    review = json.dumps({"request": {"kind": {"kind": "Secret"}, "object": SECRET, "oldObject": SECRET}}).encode()
    check_hidden(redacted(Called(1, 0, "POST", "/mutate", "application/json", review), Answered(1, 0, 200, review)))


def test_equal_values_have_equal_digests() -> None:
    """So a change of a value is still seen."""
    redactor = Redactor(b"key")
    other = {**SECRET, "data": {"password": base64.b64encode(b"another-password").decode()}}
    bodies = [
        json.loads(redactor.redact([request(f"{PATH}/db", secret, method="PUT")])[0].body)["data"]["password"]  # type: ignore[union-attr]
        for secret in (SECRET, SECRET, other)
    ]
    assert bodies[0] == bodies[1] != bodies[2]


def test_nothing_is_kept_for_exchanges_that_ended() -> None:
    """A redactor of a long run stays small."""
    redactor = Redactor(b"key")
    for number in range(1_000):
        secret = {**SECRET, "data": {"password": base64.b64encode(f"password-{number}".encode()).decode()}}
        target = f"{PATH}/{number}" if number % 2 else f"{PATH}?watch=true&{number}"
        redactor.redact([ExchangeBegan(1, number, "", "GET", target)])
        redactor.redact([Received(1, number, json.dumps(secret).encode())])
        ended = Received(1, number, b"", is_end=True) if number % 3 else Failed(1, number, "x:Error", "")
        redactor.redact([ended, CallBegan(1, number, "dns.create")])
    sizes = [len(value) for value in vars(redactor).values() if isinstance(value, dict)]
    assert max(sizes) <= 256


def test_secrets_of_a_checkpoint() -> None:
    """Its caches have Secrets, and copies of their values."""
    secrets = CachedObjects("/api/v1/secrets", (json.dumps(SECRET).encode(),))
    copies = CachedObjects("/api/v1/configmaps", (json.dumps({"data": {"url": f"db://{PASSWORD}@db"}}).encode(),))
    check_hidden(redacted(secrets, copies))


def test_a_server_behind_a_proxy() -> None:
    """The address of the server has a path of its own."""
    check_hidden(redacted(request(f"/k8s/clusters/c-1{PATH}/db"), Received(2, 0, json.dumps(SECRET).encode())))
