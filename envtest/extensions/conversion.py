"""Custom resources in several versions: the rules for ``spec.conversion``, and conversion itself."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envtest.kinds.client_config import valid_bundle, validate_client_config, validate_review_versions
from opsdk.apiserver import problems
from opsdk.apiserver.outgoing.client import CallError, HookClient
from opsdk.apiserver.outgoing.target import TargetError, target_of
from opsdk.apiserver.registry import metadata
from opsdk.apiserver.storage.ports import Tree
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.errors import Cause
from opsdk.tree.identity import IdentityCache

GROUP = "apiextensions.k8s.io"
TIMEOUT = 30
"""Seconds that a conversion may take."""
_KNOWN = ("v1", "v1beta1")
_SEEN = 1024
"""Converted objects that watchers share; as many changes as a slow one may be behind the fastest."""


# ------------------------------------------------------------------ rules
def validate_conversion(
    conversion: Tree, field: str, *, recognized: bool = True, check_bundle: bool = False
) -> Iterator[Cause]:
    """The strategy, and what belongs to it. Messages name the fields as the server itself has them."""
    strategy = conversion.get("strategy") or ""
    webhook = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    if not strategy:
        yield problems.required(f"{field}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield problems.unsupported(f"{field}.strategy", strategy, ["None", "Webhook"])
    at = f"{field}.webhookClientConfig"
    if strategy != "Webhook":
        for place, value in ((at, config), (f"{field}.conversionReviewVersions", versions)):
            if value:
                yield problems.not_allowed(place, "should not be set when strategy is not set to Webhook")
        return
    if config is None:
        yield problems.required(at, "required when strategy is set to Webhook")
    else:
        yield from validate_client_config(config, at)
        if check_bundle and config.get("caBundle") and not valid_bundle(config["caBundle"]):
            why = "unable to load root certificates: unable to parse bytes as PEM block"
            yield problems.invalid_value(f"{at}.caBundle", config["caBundle"], why)
    yield from validate_review_versions(versions, f"{field}.conversionReviewVersions", recognized=recognized)


def bundle_is_bad(conversion: Tree) -> bool:
    """Whether the ``caBundle`` is no certificate."""
    config = (conversion.get("webhook") or {}).get("clientConfig") or {}
    return bool(config.get("caBundle")) and not valid_bundle(config["caBundle"])


# ------------------------------------------------------------------ what an answer may say
class ConversionError(Exception):
    """What is wrong with a conversion; the text is the server's."""


def read_response(answer: Tree, uid: str, version: str) -> list[Any]:
    """The converted objects of a ConversionReview; `ConversionError` where it has none to give."""
    if version == "v1":
        group, _, got = str(answer.get("apiVersion") or "").rpartition("/")
        found = f"{group}/{got}, Kind={answer.get('kind') or ''}"
        if found != (wanted := f"{GROUP}/v1, Kind=ConversionReview"):
            raise ConversionError(f"expected webhook response of {wanted}, got {found}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise ConversionError("no response provided")
    if version == "v1" and response.get("uid", "") != uid:
        raise ConversionError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        text = result.get("message") or f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        raise ConversionError(text)
    return list(response.get("convertedObjects") or ())


def accept(original: Tree, converted: Any, wanted: str) -> Tree:
    """The converted object with the metadata of the original one; only labels and annotations may differ."""
    if not isinstance(converted, dict) or not converted.get("kind"):
        raise ConversionError("invalid object: Object 'Kind' is missing")
    got = converted.get("apiVersion") or ""
    if got != wanted:
        raise ConversionError(f"invalid groupVersion (expected {wanted}, received {got})")
    if converted["kind"] != original["kind"]:
        raise ConversionError(f"invalid kind (expected {original['kind']}, received {converted['kind']})")
    before, after = original.get("metadata") or {}, converted.get("metadata")
    if after is None:
        raise ConversionError("missing metadata in converted object")
    if not isinstance(after, dict):
        raise ConversionError(f"invalid metadata of type {type(after).__name__} in converted object")
    for key, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (was := before.get(key) or "") != (now := after.get(key) or ""):
            raise ConversionError(f"must have the same {name}: {was} != {now}")
    return {**converted, "metadata": _restored(before, after)}


def _restored(before: Tree, after: Tree) -> Tree:
    meta = dict(before)
    for key in ("labels", "annotations"):
        given = after.get(key)
        if given is None:
            meta.pop(key, None)
            continue
        if not isinstance(given, dict):
            raise ConversionError(f"invalid metadata.{key} of type {type(given).__name__} in converted object")
        for name, value in given.items():
            if not isinstance(value, str):
                kind = type(value).__name__
                raise ConversionError(f"metadata.{key}[{name}] must be a string, but is {kind} in converted object")
        if given != before.get(key):
            causes = (
                metadata.labels(given, "metadata.labels") if key == "labels" else metadata.annotation_problems(given)
            )
            if causes:
                raise ConversionError(", ".join(f"{c.field}: {c.message}" for c in causes))
        meta[key] = given
    return meta


# ------------------------------------------------------------------ converting
class Converter:
    """Converts between the versions of one definition, by changing ``apiVersion`` or by asking a webhook."""

    def __init__(self, definition: Tree, client: HookClient) -> None:
        spec = definition["spec"]
        conversion = spec.get("conversion") or {}
        self.remote = conversion.get("strategy") == "Webhook"
        self._webhook: Tree = conversion.get("webhook") or {}
        self._client = client
        self._known = {f"{spec['group']}/{version['name']}" for version in spec["versions"]}

    def __repr__(self) -> str:
        return f"<Converter by {'webhook' if self.remote else 'name'}>"

    def renamed(self, obj: Tree, wanted: str) -> Tree:
        """Strategy None."""
        return obj if obj.get("apiVersion") == wanted else {**obj, "apiVersion": wanted}

    async def convert(self, objects: Sequence[Tree], wanted: str) -> Sequence[Tree]:
        """Each of them in `wanted`; one call for all that need it. `ApiError` where that fails."""
        if not self.remote:
            return [self.renamed(obj, wanted) for obj in objects]
        foreign = [_bare(obj) for obj in objects if obj.get("apiVersion") != wanted]
        if not foreign:
            return objects
        made = iter(await self._ask(foreign, wanted))
        return [obj if obj.get("apiVersion") == wanted else _versioned(next(made), obj) for obj in objects]

    async def _ask(self, objects: Sequence[Tree], wanted: str) -> list[Tree]:
        who = f"conversion webhook for {objects[0].get('apiVersion')}, Kind={objects[0].get('kind')}"
        for obj in objects:
            if obj.get("apiVersion") not in self._known:
                text = f"request to convert CR from an invalid group/version: {obj.get('apiVersion')}"
                raise problems.plain(text)
        try:
            found = await self._call(objects, wanted)
        except (CallError, ConversionError) as error:
            raise problems.plain(f"{who} failed: {error}") from None
        except TargetError as error:
            raise problems.plain(str(error)) from None
        if len(found) != len(objects):
            raise problems.plain(f"{who} returned {len(found)} objects, expected {len(objects)}")
        return [_accepted(who, index, *pair, wanted) for index, pair in enumerate(zip(objects, found, strict=True))]

    async def _call(self, objects: Sequence[Tree], wanted: str) -> list[Any]:
        version = next((v for v in self._webhook.get("conversionReviewVersions") or () if v in _KNOWN), "")
        if not version:
            raise ConversionError("no supported conversion review versions")
        uid = str(uuid.uuid4())
        request: Tree = {"uid": uid, "desiredAPIVersion": wanted, "objects": list(objects)}
        review = {"kind": "ConversionReview", "apiVersion": f"{GROUP}/{version}", "request": request}
        target = target_of(self._webhook.get("clientConfig") or {})
        return read_response(await self._client.post(target, review, timeout=TIMEOUT), uid, version)


def _accepted(who: str, index: int, original: Tree, converted: Any, wanted: str) -> Tree:
    try:
        return accept(original, converted, wanted)
    except ConversionError as error:
        text = str(error)
        if text.startswith(("invalid groupVersion", "invalid kind", "invalid object")):
            raise problems.plain(f"{who} returned invalid object at index {index}: {text}") from None
        what = "metadata" if "metadata" in text else "object"
        raise problems.plain(f"{who} returned invalid {what}: {text}") from None


def _bare(obj: Tree) -> Tree:
    """Without the revision, which is not part of what is kept."""
    meta = obj.get("metadata") or {}
    if "resourceVersion" not in meta:
        return obj
    return {**obj, "metadata": {key: value for key, value in meta.items() if key != "resourceVersion"}}


def _versioned(made: Tree, obj: Tree) -> Tree:
    """`made`, with the revision of `obj`."""
    revision = (obj.get("metadata") or {}).get("resourceVersion")
    return made if revision is None else {**made, "metadata": {**made["metadata"], "resourceVersion": revision}}


class VersionCodec:
    """Between one version and the one that is kept; see `opsdk.apiserver.registry.codec.Codec`.

    What is read gets the defaults of the version in which it was written, and loses what either version does not know.

    Args:
        kept: the version that is kept now.
        schemas: by apiVersion.
    """

    def __init__(self, converter: Converter, version: str, kept: str, schemas: Mapping[str, StructuralSchema]) -> None:
        self._converter = converter
        self._version = version
        self._kept = kept
        self._schemas = schemas
        self._decoded = IdentityCache[Tree](limit=_SEEN)
        self.seen = IdentityCache[asyncio.Future[Tree]](limit=_SEEN)

    def __repr__(self) -> str:
        return f"<VersionCodec of {self._version} over {self._kept}>"

    async def read(self, objects: Sequence[Tree]) -> Sequence[Tree]:
        """See `Codec`."""
        if not self._converter.remote:
            return [self._named(obj) for obj in objects]
        decoded = [self._decode(obj) for obj in objects]
        made = await self._converter.convert(decoded, self._version)
        return [new if new is old else self._pruned(new) for new, old in zip(made, decoded, strict=True)]

    def _named(self, obj: Tree) -> Tree:
        """Strategy None needs no waiting, and can be remembered."""
        shown = self._decoded.get(obj)
        if shown is None:
            decoded = self._decode(obj)
            made = self._converter.renamed(decoded, self._version)
            shown = decoded if made is decoded else self._pruned(made)
            self._decoded.put(obj, shown)
        return shown

    def _decode(self, obj: Tree) -> Tree:
        schema = self._schemas.get(obj.get("apiVersion") or "")
        if schema is None:
            return obj
        made: Tree = schema.default(schema.prune(obj)[0])
        return made

    def _pruned(self, obj: Tree) -> Tree:
        made: Tree = self._schemas[self._version].prune(obj)[0]
        return made

    async def write(self, obj: Tree) -> Tree:
        """See `Codec`."""
        if self._version == self._kept:
            return self._converter.renamed(obj, self._kept)
        [made] = await self._converter.convert([obj], self._kept)
        pruned: Tree = self._schemas[self._kept].prune(made)[0]
        return pruned


class OwnedVersions:
    """The versions of a definition, for field ownership; see `opsdk.apiserver.resources.Versions`."""

    def __init__(self, converter: Converter, shapes: Mapping[str, Any]) -> None:
        self.shapes = shapes
        self.remote = converter.remote
        self._converter = converter

    async def convert(self, obj: Tree, wanted: str) -> Tree:
        """See `Versions`."""
        [made] = await self._converter.convert([obj], wanted)
        return made
