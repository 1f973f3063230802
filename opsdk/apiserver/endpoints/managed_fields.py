"""Updates ``metadata.managedFields`` on every write.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from opsdk.aio.clock import utc_now
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.fieldmanager.field_manager import FieldManager
from opsdk.apiserver.fieldmanager.version_converter import Convert
from opsdk.apiserver.registry.context import Context, rfc3339
from opsdk.apiserver.resources import InstalledResource
from opsdk.errors import ApiError
from opsdk.http.server.response import encode_json
from opsdk.structured_merge.fieldpath import FieldSet, field_element
from opsdk.structured_merge.value import JsonObject, JsonValue


def manager_name(call: Call, requested: str) -> str:
    """Return the field manager of a write: the client's, else the program name of its User-Agent."""
    name = requested or call.http.header("user-agent").partition("/")[0]
    return name[:128] or "unknown"


def stamp() -> str:
    """Return the timestamp of a write."""
    return rfc3339(utc_now())


def field_manager(served: InstalledResource, convert: Convert | None = None) -> FieldManager:
    """Return the field manager of a resource or subresource. Built-in kinds cache theirs."""
    if not served.model.typed or convert is not None:
        return _new_field_manager(served, convert)
    if served.field_manager is None:
        served.field_manager = _new_field_manager(served, None)
    manager: FieldManager = served.field_manager
    return manager


def _new_field_manager(served: InstalledResource, convert: Convert | None) -> FieldManager:
    versions = served.versions
    return FieldManager(
        shape=served.model.shape,
        api_version=served.info.kind_api_version,
        subresource=served.info.subresource,
        reset_fields=reset_fields(served),
        reset_in=None if served.model.typed or served.info.subresource else served.info.kind_api_version,
        convert=convert,
        shapes=None if versions is None else versions.shapes,
        live_may_be_invalid=not served.model.typed,
        unconvertible=served.custom and served.info.subresource == "scale",
    )


def reset_fields(served: InstalledResource) -> FieldSet | None:
    """Return the fields that writes through this resource do not own, because other subresources write them."""
    strategy = getattr(served.storage, "strategy", None)
    names: Sequence[str] = getattr(strategy, "reset_fields", ())
    return _fields_named(tuple(names)) if names else None


@cache
def _fields_named(names: tuple[str, ...]) -> FieldSet:
    """Cached; there are few combinations, such as status, spec and metadata."""
    return FieldSet.of(*(tuple(map(field_element, name.split("."))) for name in names))


async def with_field_manager(
    served: InstalledResource, context: Context, write: Callable[[FieldManager], JsonObject]
) -> JsonObject:
    """Run `write` with the resource's field manager.

    `write` runs again after each conversion that needs a webhook call.
    """
    versions = served.versions
    if versions is None or not versions.remote:
        return await context.compute(write, field_manager(served))
    conversions: dict[tuple[bytes, str], JsonObject | ApiError] = {}

    def convert(obj: Mapping[str, JsonValue], api_version: str) -> Mapping[str, JsonValue]:
        key = (encode_json(obj), api_version)
        if key not in conversions:
            raise _NeededError(key, dict(obj))
        conversion = conversions[key]
        if isinstance(conversion, ApiError):
            raise ApiError(
                conversion.message, code=conversion.code, reason=conversion.reason, details=conversion.details
            )
        return conversion

    manager = field_manager(served, convert)
    while True:
        try:
            return await context.compute(write, manager)
        except _NeededError as needed:
            try:
                conversions[needed.key] = await versions.convert(needed.obj, needed.key[1])
            except ApiError as error:
                conversions[needed.key] = error


class _NeededError(Exception):
    """Raised for a conversion that is not cached."""

    def __init__(self, key: tuple[bytes, str], obj: JsonObject) -> None:
        self.key = key
        self.obj = obj


async def record_update(
    call: Call,
    served: InstalledResource,
    context: Context,
    live: JsonObject | None,
    new: JsonObject,
    *,
    manager: str,
) -> JsonObject:
    """Return the new object with updated managedFields."""
    who, now = manager_name(call, manager), stamp()
    if served.versions is None:
        return await context.compute(field_manager(served).update, live, new, manager=who, now=now)
    return await with_field_manager(served, context, lambda fields: fields.update(live, new, manager=who, now=now))
