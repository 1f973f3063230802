"""Conversion of custom resources between versions, and validation of ``spec.conversion``.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/conversion (v1.36)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from envtest.extensions.conversion_review import GROUP, InvalidReviewError, WebhookResponseError, accept, read_response
from envtest.groups.common.webhook_client_config import valid_bundle, validate_client_config, validate_review_versions
from opsdk.aio.large_work import compute
from opsdk.aio.randomness import loop_uuid4
from opsdk.apiserver import api_errors
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.apiserver.webhook_client.client import WebhookCallError, WebhookClient
from opsdk.apiserver.webhook_client.endpoint import ClientConfigError, target_of
from opsdk.errors import Cause
from opsdk.http.server.response import encode_json
from opsdk.structured_merge.identity_cache import IdentityCache
from opsdk.structured_merge.value import JsonObject, JsonValue

TIMEOUT = 30
"""Timeout of a conversion webhook in seconds."""
_KNOWN = ("v1", "v1beta1")
_SEEN = 4096
"""Size of the cache of converted objects, which lists, watches and writes share."""


# ------------------------------------------------------------------ validation
def validate_conversion(
    conversion: JsonObject, field: str, *, recognized: bool = True, check_bundle: bool = False
) -> Iterator[Cause]:
    """Validate ``spec.conversion``. Messages name the fields as the internal type does."""
    strategy = conversion.get("strategy") or ""
    webhook = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    if not strategy:
        yield api_errors.required(f"{field}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield api_errors.unsupported(f"{field}.strategy", strategy, ["None", "Webhook"])
    path = f"{field}.webhookClientConfig"
    if strategy != "Webhook":
        for place, value in ((path, config), (f"{field}.conversionReviewVersions", versions)):
            if value or value == {}:
                yield api_errors.not_allowed(place, "should not be set when strategy is not set to Webhook")
        return
    if config is None:
        yield api_errors.required(path, "required when strategy is set to Webhook")
    else:
        yield from validate_client_config(config, path)
        if check_bundle and config.get("caBundle") and not valid_bundle(config["caBundle"]):
            reason = "unable to load root certificates: unable to parse bytes as PEM block"
            yield api_errors.invalid_value(f"{path}.caBundle", config["caBundle"], reason)
    yield from validate_review_versions(versions, f"{field}.conversionReviewVersions", recognized=recognized)


def bundle_is_bad(conversion: JsonObject) -> bool:
    """Return whether the ``caBundle`` holds no certificate."""
    config = (conversion.get("webhook") or {}).get("clientConfig") or {}
    return bool(config.get("caBundle")) and not valid_bundle(config["caBundle"])


# ------------------------------------------------------------------ conversion
class CustomResourceConverter:
    """Converts between the versions of one CRD: strategy None changes ``apiVersion``, Webhook calls the webhook."""

    def __init__(self, definition: JsonObject, client: WebhookClient) -> None:
        spec = definition["spec"]
        conversion = spec.get("conversion") or {}
        self.remote = conversion.get("strategy") == "Webhook"
        self._webhook: JsonObject = conversion.get("webhook") or {}
        self._client = client
        self._known = {f"{spec['group']}/{version['name']}" for version in spec["versions"]}

    def __repr__(self) -> str:
        return f"<Converter by {'webhook' if self.remote else 'name'}>"

    def renamed(self, obj: JsonObject, api_version: str) -> JsonObject:
        """Convert by strategy None: only ``apiVersion`` changes."""
        return obj if obj.get("apiVersion") == api_version else {**obj, "apiVersion": api_version}

    async def convert(self, objects: Sequence[JsonObject], api_version: str) -> Sequence[JsonObject]:
        """Convert objects to `api_version`, with one webhook call for all; a failure raises `ApiError`."""
        if not self.remote:
            return [self.renamed(obj, api_version) for obj in objects]
        foreign = [_without_resource_version(obj) for obj in objects if obj.get("apiVersion") != api_version]
        if not foreign:
            return objects
        who = f"conversion webhook for {foreign[0].get('apiVersion')}, Kind={foreign[0].get('kind')}"
        for obj in foreign:
            if obj.get("apiVersion") not in self._known:
                text = f"request to convert CR from an invalid group/version: {obj.get('apiVersion')}"
                raise api_errors.plain(text)
        try:
            response = await self._call(foreign, api_version)
        except (WebhookCallError, WebhookResponseError, InvalidReviewError) as error:
            raise api_errors.plain(f"{who} failed: {error}") from None
        except ClientConfigError as error:
            raise api_errors.plain(str(error)) from None
        if len(response) != len(foreign):
            raise api_errors.plain(f"{who} returned {len(response)} objects, expected {len(foreign)}")
        converted = iter(
            [
                _accepted(who, index, *pair, api_version)
                for index, pair in enumerate(zip(foreign, response, strict=True))
            ]
        )
        return [
            obj if obj.get("apiVersion") == api_version else _with_resource_version(next(converted), obj)
            for obj in objects
        ]

    async def _call(self, objects: Sequence[JsonObject], api_version: str) -> list[JsonValue]:
        version = next((v for v in self._webhook.get("conversionReviewVersions") or () if v in _KNOWN), "")
        if not version:
            raise WebhookResponseError("no supported conversion review versions")
        uid = loop_uuid4()
        request: JsonObject = {"uid": uid, "desiredAPIVersion": api_version, "objects": list(objects)}
        review = {"kind": "ConversionReview", "apiVersion": f"{GROUP}/{version}", "request": request}
        target = target_of(self._webhook.get("clientConfig") or {})
        return read_response(await self._client.post(target, review, timeout=TIMEOUT), uid, version)


def _accepted(webhook: str, index: int, original: JsonObject, converted: JsonValue, api_version: str) -> JsonObject:
    try:
        return accept(original, converted, api_version)
    except WebhookResponseError as error:
        text = str(error)
        position = f" at index {index}" if text.startswith(("invalid groupVersion", "invalid kind")) else ""
        what = "metadata" if "metadata" in text else "object"
        raise api_errors.plain(f"{webhook} returned invalid {what}{position}: {text}") from None
    except InvalidReviewError as error:
        raise api_errors.plain(str(error)) from None


def _without_resource_version(obj: JsonObject) -> JsonObject:
    """Return the object without its resource version, which is not stored."""
    meta = obj.get("metadata") or {}
    if "resourceVersion" not in meta:
        return obj
    return {**obj, "metadata": {key: value for key, value in meta.items() if key != "resourceVersion"}}


def _with_resource_version(converted: JsonObject, obj: JsonObject) -> JsonObject:
    """Return `converted` with the resource version of `obj`."""
    revision = (obj.get("metadata") or {}).get("resourceVersion")
    return (
        converted
        if revision is None
        else {**converted, "metadata": {**converted["metadata"], "resourceVersion": revision}}
    )


def pruned(schema: StructuralSchema, converted: JsonObject) -> JsonObject:
    """Prune a converted object by the schema of its version, and drop nulls of fields that are not nullable."""
    result: JsonObject = schema.without_nulls(schema.prune(converted)[0])
    return result


class VersionCodec:
    """Converts between one served version and the storage version.

    A read object gets the defaults of its stored version, and loses fields that one of both versions does not define.

    Args:
        storage_version: the current storage version.
        schemas: the structural schemas by apiVersion.
    """

    def __init__(
        self,
        converter: CustomResourceConverter,
        version: str,
        storage_version: str,
        schemas: Mapping[str, StructuralSchema],
    ) -> None:
        self._converter = converter
        self._version = version
        self._storage_version = storage_version
        self._schemas = schemas
        self._decoded = IdentityCache[JsonObject](limit=_SEEN)
        self.decoded_objects = IdentityCache[asyncio.Future[JsonObject]](limit=_SEEN)

    def __repr__(self) -> str:
        return f"<VersionCodec of {self._version} over {self._storage_version}>"

    async def read(self, objects: Sequence[JsonObject]) -> Sequence[JsonObject]:
        if not self._converter.remote:
            return [await _compute(obj, self._named) for obj in objects]
        decoded = [await _compute(obj, self._decode) for obj in objects]
        converted = await self._converter.convert(decoded, self._version)
        pairs = zip(converted, decoded, strict=True)
        return [new if new is old else await _compute(new, self._pruned) for new, old in pairs]

    def _named(self, obj: JsonObject) -> JsonObject:
        """Convert by strategy None, which needs no request, and cache the result."""
        renamed = self._decoded.get(obj)
        if renamed is None:
            decoded = self._decode(obj)
            result = self._converter.renamed(decoded, self._version)
            renamed = decoded if result is decoded else self._pruned(result)
            self._decoded.put(obj, renamed)
        return renamed

    def _decode(self, obj: JsonObject) -> JsonObject:
        schema = self._schemas.get(obj.get("apiVersion") or "")
        if schema is None:
            return obj
        defaulted: JsonObject = schema.default(schema.prune(obj)[0])
        return defaulted

    def _pruned(self, obj: JsonObject) -> JsonObject:
        return pruned(self._schemas[self._version], obj)

    async def write(self, obj: JsonObject) -> JsonObject:
        if self._version == self._storage_version:
            return self._converter.renamed(obj, self._storage_version)
        [converted] = await self._converter.convert([obj], self._storage_version)
        return await _compute(converted, partial(pruned, self._schemas[self._storage_version]))


async def _compute(obj: JsonObject, work: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """Call `work` with an object, outside the event loop if the object is large."""
    return await compute(len(encode_json(obj)), work, obj)


class OwnedVersions:
    """The versions of a CRD for field ownership; see `opsdk.apiserver.resources.Versions`."""

    def __init__(self, converter: CustomResourceConverter, shapes: Mapping[str, JsonValue]) -> None:
        self.shapes = shapes
        self.remote = converter.remote
        self._converter = converter

    async def convert(self, obj: JsonObject, api_version: str) -> JsonObject:
        [converted] = await self._converter.convert([obj], api_version)
        return converted
