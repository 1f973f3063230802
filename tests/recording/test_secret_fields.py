"""Fields of custom resources that hold secrets: hidden wherever the object travels, and wherever values are copied."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, field, msgpack

from opsdk import GroupVersionKind, Model, Object, crd_for
from opsdk.apimachinery.crd import json_schema
from opsdk.apimachinery.secret_values import LAST_APPLIED
from opsdk.base.cause import ReconcileCause
from opsdk.recording.records import (
    Answered,
    CachedObjects,
    CallBegan,
    Called,
    EventSeriesRecord,
    ExchangeBegan,
    Failed,
    HeldRequest,
    Received,
    Record,
    Responded,
    Returned,
)
from opsdk.recording.redaction import Redactor

PASSWORD = 'correct "horse" <&> bättery'
TOKEN = "second-token-of-a-list"
SECRET_TEXT = Annotated[str, json_schema({"format": "password"}), Meta(max_length=60)]


class VaultSpec(Model):
    """The desired state of a Vault."""

    password: SECRET_TEXT = ""
    tokens: list[SECRET_TEXT] = field(default_factory=list)
    keys: dict[str, SECRET_TEXT] = field(default_factory=dict)
    size: int = 1


class Vault(Object[VaultSpec, None]):
    """A kind with secret fields."""

    gvk = GroupVersionKind("vaults.example.com", "v1", "Vault")


SPEC = {"password": PASSWORD, "tokens": [TOKEN], "keys": {"a": TOKEN}, "size": 2}
APPLIED = json.dumps({"kind": "Vault", "spec": SPEC})
VAULT = {
    "apiVersion": "vaults.example.com/v1",
    "kind": "Vault",
    "metadata": {"name": "a", "annotations": {LAST_APPLIED: APPLIED}},
    "spec": SPEC,
}
PATH = "/apis/vaults.example.com/v1/namespaces/default/vaults"
# The words of the password that JSON and Go do not change.
PARTS = [PASSWORD.split(maxsplit=1)[0], "horse", "ttery", TOKEN]


def redacted(*records: Record, redactor: Redactor | None = None) -> str:
    """Return the text of records after a redactor."""
    return "\n".join(map(repr, (redactor or Redactor(b"key")).redact(records)))


def check_hidden(text: str) -> None:
    """A text has no part of the password, in no form."""
    forms = [*PARTS, *(base64.b64encode(value.encode()).decode() for value in (PASSWORD, TOKEN))]
    assert [form for form in forms if form in text] == []


def sent(body: Any, *, target: str = f"{PATH}/a", method: str = "PATCH", server: str = "") -> ExchangeBegan:
    """Return a request."""
    return ExchangeBegan(1, 0, server, method, target, "application/json", json.dumps(body).encode())


def patch(*operations: dict[str, Any]) -> str:
    """Return a JSON patch in base64, as webhooks answer it."""
    return base64.b64encode(json.dumps(operations).encode()).decode()


BODIES: dict[str, Any] = {
    "object": VAULT,
    "list": {"apiVersion": "vaults.example.com/v1", "kind": "VaultList", "items": [VAULT, VAULT]},
    "merge patch": {"spec": {"password": PASSWORD, "keys": {"a": TOKEN, "b": None}}},
    "JSON patch of a field": [{"op": "replace", "path": "/spec/password", "value": PASSWORD}],
    "JSON patch of an item": [{"op": "add", "path": "/spec/tokens/-", "value": TOKEN}],
    "JSON patch of the spec": [{"op": "add", "path": "/spec", "value": SPEC}],
    "JSON patch of an annotation": [
        {
            "op": "add",
            "path": "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
            "value": APPLIED,
        }
    ],
    "metadata": {"kind": "PartialObjectMetadata", "metadata": VAULT["metadata"]},
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    """In requests and responses. Other fields stay."""
    body = BODIES[name]
    target = PATH if name == "list" else f"{PATH}/a"
    check_hidden(redacted(sent(body, target=target), Received(2, 0, json.dumps(body).encode())))
    text = redacted(sent({**VAULT, "spec": {"password": "", "size": 2}}, method="PUT"))
    assert '"size":2' in text
    assert '"password":""' in text


@given(st.lists(st.integers(min_value=1, max_value=1_400), max_size=8))
def test_events_and_bodies_at_every_cut(cuts: list[int]) -> None:
    """An event or a body may come in any parts; whole ones are in the recording."""
    events = b"".join(json.dumps({"type": kind, "object": VAULT}).encode() + b"\n" for kind in ("ADDED", "MODIFIED"))
    for target, data in ((f"{PATH}?watch=true", events), (f"{PATH}/a", json.dumps(VAULT).encode())):
        redactor, place, received = Redactor(b"key"), 0, b""
        redactor.redact([ExchangeBegan(1, 0, "", "GET", target)])
        for cut in [*sorted(cuts), len(data)]:
            [record] = redactor.redact([Received(2, 0, data[place : max(cut, place)])])
            assert isinstance(record, Received)
            place, received = max(cut, place), received + record.data
        check_hidden(received.decode())
        assert [json.loads(line) for line in received.splitlines()]


def test_reviews() -> None:
    """Of admission, with the patch of the answer, and of conversion."""
    operation = {"op": "replace", "path": "/spec/password", "value": PASSWORD}
    reviews: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"request": {"kind": {"kind": "Vault"}, "object": VAULT, "oldObject": VAULT}}, {"patchType": "JSONPatch"}),
        ({"request": {"desiredAPIVersion": "v2", "objects": [VAULT]}}, {"convertedObjects": [VAULT, {**VAULT}]}),
    ]
    for request, response in reviews:
        answer = {"response": {**response, **({"patch": patch(operation)} if "patchType" in response else {})}}
        called = Called(1, 0, "POST", "/mutate", "application/json", json.dumps(request).encode())
        redactor = Redactor(b"key")
        answered = redactor.redact([called, Answered(1, 0, 200, json.dumps(answer).encode())])
        text = repr(answered)
        check_hidden(text)
        assert base64.b64encode(PASSWORD.encode()).decode()[:12] not in text
        if "patchType" in response:
            assert isinstance(answered[1], Answered)
            operations = json.loads(base64.b64decode(json.loads(answered[1].body)["response"]["patch"]))
            check_hidden(repr(operations))
            assert operations[0]["path"] == "/spec/password"


def test_copies() -> None:
    """In objects, Events, calls, errors, headers, causes, checkpoints; as text, base64, Go's JSON, JSON in JSON."""
    go = json.dumps(PASSWORD, ensure_ascii=False)[1:-1].replace("<", "\\u003c").replace("&", "\\u0026")
    go = go.replace(">", "\\u003e")
    config_map = {"data": {"url": f"db://{PASSWORD}@db", "b": base64.b64encode(PASSWORD.encode()).decode()}}
    cause = ReconcileCause("retry", detail=f"bad password {TOKEN}")
    copies: list[Record] = [
        sent(config_map, target="/api/v1/namespaces/default/configmaps/a"),
        sent({"note": f"changed to {PASSWORD}"}, target="/apis/events.k8s.io/v1/namespaces/default/events"),
        sent({"data": {"nested": json.dumps(config_map)}}, target="/api/v1/namespaces/default/configmaps/b"),
        Received(3, 9, b'{"data":{"url":"%b"}}' % go.encode()),
        Responded(3, 9, 200, {"warning": f'299 - "unknown {TOKEN}"'}),
        CallBegan(3, 10, "dns.create", msgpack.encode([PASSWORD])),
        Returned(3, 10, msgpack.encode({"key": PASSWORD})),
        Failed(3, 10, "builtins:ValueError", f"bad {PASSWORD}"),
        CachedObjects("/api/v1/configmaps", (json.dumps(config_map).encode(),)),
        EventSeriesRecord(json.dumps({"note": PASSWORD}).encode(), "", 1),
        HeldRequest("sites", "default", "a", b"", (cause,)),
    ]
    check_hidden(redacted(sent(VAULT), *copies))


def test_caches_of_a_checkpoint() -> None:
    """Their objects have no kind."""
    check_hidden(redacted(CachedObjects(PATH, (json.dumps({"metadata": {}, "spec": SPEC}).encode(),))))


def test_kinds_without_a_class() -> None:
    """Their fields are hidden from the time at which the operator has read the definition, in open watches too."""
    definition = json.loads(json.dumps(crd_for(Vault)).replace("Vault", "Safe").replace("vault", "safe"))
    obj = json.loads(json.dumps(VAULT).replace("Vault", "Safe").replace("vaults", "safes"))
    path = PATH.replace("vaults", "safes")
    redactor, event = Redactor(b"key"), json.dumps({"type": "ADDED", "object": obj}).encode() + b"\n"
    redactor.redact([ExchangeBegan(1, 1, "", "GET", f"{path}?watch=true")])
    assert TOKEN in redacted(Received(1, 1, event), redactor=redactor)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    listed = Received(1, 2, json.dumps({"items": [definition]}).encode())
    assert "openAPIV3Schema" in redacted(ExchangeBegan(1, 2, "", "GET", definitions), listed, redactor=redactor)
    check_hidden(redacted(Received(1, 1, event[:100]), Received(2, 1, event[100:]), redactor=redactor))
    check_hidden(redacted(ExchangeBegan(1, 3, "", "GET", f"{path}/a"), Received(1, 3, event), redactor=redactor))


def test_more_than_a_hundred_secrets() -> None:
    """A value is found after any number of others."""
    redactor = Redactor(b"key")
    for number in range(300):
        data = {"p": base64.b64encode(b"password-%d" % number).decode()}
        request = ExchangeBegan(1, number, "", "GET", "/api/v1/namespaces/default/secrets/a")
        redactor.redact([request, Received(1, number, json.dumps({"kind": "Secret", "data": data}).encode())])
    copies = {"data": {f"{number}": f"password-{number} " for number in range(300)}}
    text = redacted(sent(copies, target="/api/v1/namespaces/default/configmaps/a"), redactor=redactor)
    assert "password-" not in text
