"""Conversion of custom resources between the versions of one kind, and ConversionReview v1. Pure.

One version is the hub: every other version, a spoke, has a function to it and a function from it. A conversion between
two spokes goes through the hub.

Upstream: sigs.k8s.io/controller-runtime/pkg/webhook/conversion/conversion.go, conversion_hubspoke.go
Deviates: metadata is taken from the original object, except for labels and annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from opsdk.apimachinery.codec import decode, decode_tree
from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.meta import UnsetMap
from opsdk.apimachinery.object import PartialObjectMetadata, TypedObject, convert, to_dict
from opsdk.apimachinery.patch.json_patch import create_json_patch
from opsdk.errors import BadRequestError, ConversionError, DecodeError, UsageError
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject
from opsdk.webhook.lost_fields import keep_lost, lost_fields, restore_lost

__all__ = ["Converter", "HubSpokeConverter", "Spoke", "check_round_trip"]

H = TypeVar("H", bound=TypedObject)
S = TypeVar("S", bound=TypedObject)

MAX_REQUEST_SIZE = 128 * 1024 * 1024
"""Bytes from which a review is too large. The API server converts a whole page of a list at once."""
_API_VERSION, _KIND = "apiextensions.k8s.io/v1", "ConversionReview"


# ------------------------------------------------------------------ converters
class Converter(Protocol):
    """Converts objects of one kind between its versions."""

    @property
    def group_kind(self) -> GroupKind:
        """The kind."""
        ...

    def convert(self, tree: JsonObject, api_version: str) -> JsonObject:
        """Return the object in `api_version`; `tree` is not changed. Raises `ConversionError`."""
        ...


@dataclass(frozen=True, slots=True)
class Spoke(Generic[S, H]):
    """A version other than the hub.

    A function returns a new object. If it leaves labels or annotations out, the old ones stay. If it assigns them,
    they replace the old ones, even if they are empty. Data that the other version cannot hold is lost, unless the
    converter is lossless.

    Attributes:
        kind: the class of the version.
        to_hub: returns the object in the hub's version.
        from_hub: returns the hub's object in this version.
    """

    kind: type[S]
    to_hub: Callable[[S], H]
    from_hub: Callable[[H], S]


class HubSpokeConverter(Generic[H]):
    """Converts through a hub.

    ::

        HubSpokeConverter(WebsiteV1, Spoke(WebsiteV1Beta1, to_hub=upgrade, from_hub=downgrade))

    Args:
        hub: the class of the hub, often the storage version.
        spokes: all other versions.
        lossless: an annotation keeps what a version cannot hold, see `opsdk.webhook.lost_fields`. Each conversion then
            calls the function back, too.

    Raises:
        UsageError: there is no spoke, a version occurs twice, or a class is of another kind.
    """

    def __init__(self, hub: type[H], *spokes: Spoke[Any, H], lossless: bool = False) -> None:
        if not spokes:
            raise UsageError(f"{hub.gvk} has no spoke: a kind with one version needs no conversion")
        self._hub = hub
        self._lossless = lossless
        self._kinds = (hub, *(spoke.kind for spoke in spokes))
        self._spokes = {spoke.kind.gvk.api_version: spoke for spoke in spokes}
        versions = [hub.gvk, *(spoke.kind.gvk for spoke in spokes)]
        if len(set(versions)) < len(versions):
            raise UsageError(f"a version occurs twice in {[str(gvk) for gvk in versions]}")
        if len({gvk.group_kind for gvk in versions}) > 1:
            raise UsageError(f"{[str(gvk) for gvk in versions]} are not versions of one kind")

    @property
    def group_kind(self) -> GroupKind:
        return self._hub.gvk.group_kind

    @property
    def kinds(self) -> tuple[type[TypedObject], ...]:
        """The classes, the hub first. ``crd_for(*converter.kinds)`` is the definition of the kind."""
        return self._kinds

    @property
    def api_versions(self) -> list[str]:
        """The versions, the hub first."""
        return [self._hub.gvk.api_version, *self._spokes]

    def convert(self, tree: JsonObject, api_version: str) -> JsonObject:
        source = str(tree.get("apiVersion") or "")
        if source == api_version:
            raise ConversionError(f"conversion is not allowed between same type {source}, Kind={self.group_kind.kind}")
        for version in (source, api_version):
            if version not in self.api_versions:
                raise ConversionError(f"{version} is not a version of {self.group_kind}: use {self.api_versions}")
        if (spoke := self._spokes.get(source)) is not None:
            tree = self._step(tree, spoke.kind, self._hub, spoke.to_hub, spoke.from_hub)
        if (spoke := self._spokes.get(api_version)) is not None:
            tree = self._step(tree, self._hub, spoke.kind, spoke.from_hub, spoke.to_hub)
        return tree

    def _step(
        self,
        tree: JsonObject,
        source: type[Any],
        target: type[Any],
        there: Callable[..., Any],
        back: Callable[..., Any],
    ) -> JsonObject:
        """Convert between the hub and a spoke."""
        obj = _decoded(tree, source, target)
        converted = _with_metadata(tree, _check_kind(there(obj), target))
        if not self._lossless:
            return converted
        converted = restore_lost(converted, target.gvk.version)
        returned = _check_kind(back(_decoded(converted, target, source)), source)
        return keep_lost(converted, lost_fields(to_dict(obj), to_dict(returned)), source.gvk.version)

    def __repr__(self) -> str:
        return f"<HubSpokeConverter of {self.group_kind}: {', '.join(self.api_versions)}>"


def _decoded(tree: JsonObject, kind: type[Any], target: type[Any]) -> Any:
    try:
        return decode(msgspec.json.encode(tree), Kind(kind.gvk, kind))
    except DecodeError as error:
        raise ConversionError(f"cannot convert to {target.gvk.api_version}: {error}") from error


def _check_kind(obj: object, kind: type[TypedObject]) -> TypedObject:
    if not isinstance(obj, kind):
        raise ConversionError(f"the conversion to {kind.gvk} returned a {type(obj).__name__}")
    return obj


def _with_metadata(original: JsonObject, obj: TypedObject) -> JsonObject:
    """Return the tree of `obj` with the metadata of `original`; only labels and annotations may differ."""
    metadata = dict(original.get("metadata") or {})
    for name, values in (("labels", obj.metadata.labels), ("annotations", obj.metadata.annotations)):
        if values:
            metadata[name] = dict(values)
        elif not isinstance(values, UnsetMap):
            metadata.pop(name, None)
    converted = to_dict(obj)
    changed: JsonObject = converted.get("metadata") or {}
    if changed.keys() - {"labels", "annotations"}:
        decoded: JsonObject = to_dict(convert({"metadata": metadata}, PartialObjectMetadata)).get("metadata") or {}
        for name, value in changed.items():
            if value != decoded.get(name):
                raise ConversionError(f"a conversion must not change metadata.{name}: {decoded.get(name)} != {value}")
    return {**converted, "metadata": metadata}


def check_round_trip(converter: HubSpokeConverter[Any], obj: TypedObject) -> None:
    """Convert `obj` to every other version and back, and compare. For tests, also with hypothesis.

    ::

        @given(websites())
        def test_round_trip(site: Website) -> None:
            check_round_trip(CONVERTER, site)

    Raises:
        ConversionError: a conversion fails, or a field differs afterwards; the message names version and fields.
    """
    before = to_dict(obj)
    for api_version in converter.api_versions:
        if api_version == obj.api_version:
            continue
        there = converter.convert(before, api_version)
        back = to_dict(decode_tree(converter.convert(there, obj.api_version), Kind(obj.gvk, type(obj))))
        if changes := create_json_patch(before, back):
            paths = ", ".join(str(change["path"]) for change in changes)
            raise ConversionError(f"{obj.gvk} changes when it is converted to {api_version} and back: {paths}")


# ------------------------------------------------------------------ reviews
@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionRequest:
    """A decoded review: objects to convert to one version."""

    uid: str
    desired_api_version: str
    objects: list[JsonObject]


class _WireRequest(msgspec.Struct):
    uid: str | None = None
    desired_api_version: str | None = msgspec.field(name="desiredAPIVersion", default=None)
    objects: list[dict[str, Any]] | None = None


class _WireReview(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    request: _WireRequest | None = None


def decode_review(body: bytes) -> ConversionRequest:
    """Decode a ConversionReview v1. Raises `BadRequestError` if it does not decode, or has no request."""
    try:
        review = msgspec.json.decode(body, type=_WireReview)
    except JSON_ERRORS as error:
        raise BadRequestError(f"the ConversionReview does not decode: {error}") from error
    if (review.api_version, review.kind) != (_API_VERSION, _KIND):
        unknown = f"{review.api_version or ''}, Kind={review.kind or ''}"
        raise BadRequestError(f"{unknown} is not known: send {_API_VERSION}, Kind={_KIND}")
    if review.request is None:
        raise BadRequestError("the ConversionReview has no request")
    return ConversionRequest(
        uid=review.request.uid or "",
        desired_api_version=review.request.desired_api_version or "",
        objects=review.request.objects or [],
    )


def convert_object(converters: Mapping[GroupKind, Converter], tree: JsonObject, api_version: str) -> JsonObject:
    """Return an object in `api_version`, by the converter of its kind.

    Raises:
        ConversionError: `api_version` is in another group or the object's own version, or the kind has no converter.
    """
    source, kind = str(tree.get("apiVersion") or ""), str(tree.get("kind") or "")
    group = source.rpartition("/")[0]
    if api_version.rpartition("/")[0] != group:
        raise ConversionError(f"cannot convert {source}, Kind={kind} to {api_version}: the API groups differ")
    converter = converters.get(GroupKind(group, kind))
    if converter is None:
        raise ConversionError(f"{GroupKind(group, kind)} has no converter: register one with all its versions")
    return converter.convert(tree, api_version)


def encode_review(request: ConversionRequest, result: list[JsonObject] | ConversionError) -> bytes:
    """Return the review that carries the converted objects, or a ``Failure`` status with the error."""
    response: JsonObject = {"uid": request.uid}
    if isinstance(result, ConversionError):
        response |= {"convertedObjects": [], "result": {"status": "Failure", "message": str(result)}}
    else:
        response |= {"convertedObjects": result, "result": {"status": "Success"}}
    return msgspec.json.encode({"kind": _KIND, "apiVersion": _API_VERSION, "response": response})
