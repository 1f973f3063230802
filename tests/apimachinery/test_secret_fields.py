"""Which fields of a kind hold secrets, and that they are hidden in each part of an object."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic
import pytest
from msgspec import field

from opsdk import GroupVersionKind, Model, Object
from opsdk.apimachinery.crd import json_schema, schema_for
from opsdk.apimachinery.secret_fields import below, secret_fields, without_secrets

PASSWORD = {"type": "string", "format": "password"}


class Login(pydantic.BaseModel):
    """A model of pydantic."""

    password: pydantic.SecretStr
    others: list[pydantic.SecretStr | None] = []


class Server(Object[Login, None]):
    """A kind with a model of pydantic."""

    gvk = GroupVersionKind("servers.example.com", "v1", "Server")


class UserSpec(Model):
    """Secrets in lists, maps and optional fields."""

    token: Annotated[str | None, json_schema({"format": "password"})] = None
    keys: list[Annotated[str, json_schema({"format": "password"})]] = field(default_factory=list)
    users: dict[str, Annotated[str, json_schema({"format": "password"})]] = field(default_factory=dict)
    size: int = 1


class User(Object[UserSpec, None]):
    """A typed kind."""

    gvk = GroupVersionKind("users.example.com", "v1", "User")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (schema_for(Server), {"spec.password", "spec.others.*"}),
        (schema_for(User), {"spec.token", "spec.keys.*", "spec.users.*"}),
        ({"properties": {"spec": {"properties": {"a": {"anyOf": [PASSWORD, {"type": "integer"}]}}}}}, {"spec.a"}),
        ({"properties": {"spec": {"allOf": [{"properties": {"a": PASSWORD}}]}}}, {"spec.a"}),
        ({"properties": {"spec": {"type": "object", "format": "password"}}}, {"spec"}),
        ({"properties": {"spec": {"properties": {"format": {"type": "string"}}}}}, set()),
    ],
    ids=["pydantic", "typed", "any of", "all of", "whole", "none"],
)
def test_fields_of_a_schema(schema: dict[str, Any], expected: set[str]) -> None:
    """And the annotation of kubectl, which has a copy, if there are any."""
    paths = {".".join(path) for path in secret_fields(schema) if path[0] != "metadata"}
    assert paths == expected
    assert len(secret_fields(schema)) == len(expected) + bool(expected)


def test_every_text_of_a_secret_is_hidden() -> None:
    """Also in parts of it; what is no text stays, and so do other fields."""
    paths = frozenset({("spec", "users", "*"), ("spec", "whole")})
    tree = {"spec": {"users": {"a": "one", "b": None}, "whole": {"c": ["two", 3]}, "other": "clear"}}
    hidden = {"spec": {"users": {"a": "#", "b": None}, "whole": {"c": ["#", 3]}, "other": "clear"}}
    assert without_secrets(tree, paths, lambda _: "#") == hidden
    assert without_secrets(tree["spec"], below(paths, "spec"), lambda _: "#") == hidden["spec"]
