"""A client that is neither the operator nor its user: it deletes a child, or edits what the operator owns of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ApiError
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.objects import reference_to

__all__ = ["delete_child", "edit_child", "edits_of"]

_MAX_EDITS: Final = 5
_USER_AGENT: Final = "foreign/1"
_CONTENT: Final = ("data", "spec")
_EDITED: Final = "edited"
_EDITED_BASE64: Final = "ZWRpdGVk"


async def delete_child(config: RestConfig, child: JsonObject) -> None:
    """Delete an object, given as it is stored."""
    async with Cluster(replace(config, user_agent=_USER_AGENT)) as cluster:
        await cluster.uncached.delete(reference_to(child), missing_ok=True)


async def edit_child(config: RestConfig, child: JsonObject, own: JsonObject) -> None:
    """Change one field of an object that the operator owns, the first one whose change the server accepts.

    Args:
        config: of the server.
        child: as it is stored.
        own: the part that the operator owns.
    """
    async with Cluster(replace(config, user_agent=_USER_AGENT)) as cluster:
        for edit in edits_of(own, is_secret=child["kind"] == "Secret"):
            if await _is_accepted(cluster.uncached, child, edit):
                return


async def _is_accepted(client: Client, child: JsonObject, edit: JsonObject) -> bool:
    try:
        await client.patch(reference_to(child), merge_patch(edit), field_owner="foreign")
    except ApiError as error:
        if error.code in (400, 403, 409, 422):
            return False  # an immutable field, or a rule of the kind
        raise
    return True


def edits_of(own: JsonObject, *, is_secret: bool = False) -> Iterator[JsonObject]:
    """Yield merge patches that each change one value of data or spec: numbers first, because any text may be checked.

    >>> list(edits_of({"spec": {"replicas": 2, "paused": True}, "metadata": {"name": "a"}}))
    [{'spec': {'replicas': 3}}]
    >>> list(edits_of({"data": {"text": "one"}}))
    [{'data': {'text': 'edited'}}]
    """
    content = {name: own[name] for name in _CONTENT if isinstance(own.get(name), dict)}
    numbers = list(_edits(content, is_secret=is_secret, numbers=True))
    texts = list(_edits(content, is_secret=is_secret, numbers=False))
    yield from [*numbers, *texts][:_MAX_EDITS]


def _edits(content: JsonObject, *, is_secret: bool, numbers: bool) -> Iterator[JsonObject]:
    for name, value in content.items():
        if isinstance(value, dict):
            for edit in _edits(value, is_secret=is_secret, numbers=numbers):
                yield {name: edit}
        elif numbers is isinstance(value, int) and isinstance(value, int | str) and not isinstance(value, bool):
            yield {name: _edited(value, is_secret=is_secret)}


def _edited(value: JsonValue, *, is_secret: bool) -> JsonValue:
    if isinstance(value, int):
        return value + 1
    return _EDITED_BASE64 if is_secret else _EDITED
