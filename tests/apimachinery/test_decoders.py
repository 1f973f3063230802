"""Laws of the steps that build a decoder."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from opsdk.api.apiextensions.v1 import CustomResourceDefinition
from opsdk.api.core.v1 import Pod
from opsdk.apimachinery import decoders
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.decoders import decoder_steps
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object
from opsdk.errors import UsageError


class Rule(Model):
    """A class that holds itself."""

    name: str = ""
    rules: list[Rule] | None = None
    by_name: dict[str, Port] | None = None


class Port(Model):
    """A nested class."""

    number: int = 0


class Gateway(Object[Rule, Port]):
    """A kind of the test."""


class Broken(Model):
    """A class with an annotation that nothing defines."""

    port: Missing | None = None  # type: ignore[name-defined]  # noqa: F821


def test_each_class_is_built_after_those_of_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists, dicts, generic parameters and optional fields are followed, and a cycle ends."""
    built: list[type] = []
    original = msgspec.json.Decoder

    def decoder(form: type, **options: object) -> object:
        built.append(form)
        return original(form, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(decoders.msgspec.json, "Decoder", decoder)
    list(decoder_steps(Gateway))
    assert len(built) == len(set(built))
    assert built.index(Port) < built.index(Rule) < built.index(Gateway)


@pytest.mark.parametrize("kind", [Pod, CustomResourceDefinition])
def test_the_number_of_steps_is_the_same_each_time(kind: type[msgspec.Struct]) -> None:
    """A seeded run repeats exactly, whatever the process has decoded before."""
    first = len(list(decoder_steps(kind)))
    assert first == len(list(decoder_steps(kind)))


def test_a_class_without_json_form_is_named() -> None:
    """The error names the class and the annotation."""
    with pytest.raises(UsageError, match="Broken cannot be decoded"):
        list(decoder_steps(Broken))


class Bounded(Model):
    """A bound on an optional value, which msgspec cannot check."""

    name: str = ""
    size: Annotated[int | None, msgspec.Meta(ge=1)] = None


class BoundedKind(Object[Bounded, None]):
    """A kind with it."""

    gvk = GroupVersionKind("tests.opsdk.dev", "v1", "Bounded")


def test_a_wrong_annotation_is_named() -> None:
    """The error names the nested class and the field, and shows the form that works, for decoders and definitions."""
    for use in (lambda: list(decoder_steps(BoundedKind)), lambda: crd_for(BoundedKind)):
        with pytest.raises(
            UsageError, match=r"BoundedKind cannot be decoded.*: Bounded\.size: Can only set `ge`"
        ) as error:
            use()
        assert "Annotated[int, Meta(ge=1)] | None" in str(error.value)
