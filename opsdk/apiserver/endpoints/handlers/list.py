"""LIST of a collection.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/get.go (v1.36).
"""

from __future__ import annotations

from opsdk.apiserver import api_errors
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.handlers.get import wait_for_revision
from opsdk.apiserver.endpoints.options import (
    ContinueToken,
    ListQueryOptions,
    check_list,
    list_options,
    resource_version,
)
from opsdk.apiserver.endpoints.response import accepted_for, list_response
from opsdk.apiserver.registry.rest import ListQuery, ListResult
from opsdk.apiserver.resources import InstalledResource
from opsdk.apiserver.storage.ports import CompactedError, FutureRevisionError
from opsdk.errors import ApiError, Details, GoneError
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class ExpiredListError(GoneError):
    """The continue token is expired; `token` continues with the current snapshot."""

    def __init__(self, token: str) -> None:
        super().__init__(_TOO_OLD, code=410, reason="Expired", details=Details())
        self.token = token


async def handle(call: Call, served: InstalledResource) -> HttpResponse:
    """Return the list."""
    accepted = accepted_for(call, served)
    options = list_options(call.http.query)
    check_list(options)
    listed = await fetch(call, served, options)
    return await list_response(call, served, listed.items, list_meta(listed), accepted)


async def fetch(call: Call, served: InstalledResource, options: ListQueryOptions) -> ListResult:
    """Return the stored objects of the list."""
    query = await list_query(served, options)
    try:
        return await served.storage.list(call.context(), query)  # type: ignore[no-any-return]
    except (CompactedError, FutureRevisionError) as error:
        raise out_of_reach(error, options, query) from None


def out_of_reach(error: CompactedError | FutureRevisionError, options: ListQueryOptions, query: ListQuery) -> ApiError:
    """Return the error of a revision that is compacted or not yet reached."""
    if isinstance(error, FutureRevisionError):
        return api_errors.too_large_resource_version(error.requested, error.current)
    if options.token:
        return ExpiredListError(ContinueToken(-1, query.start).encode())
    return api_errors.expired("The resourceVersion for the provided list is too old.")


def list_meta(listed: ListResult) -> JsonObject:
    """Return the ListMeta of a list."""
    meta: JsonObject = {"resourceVersion": str(listed.revision)}
    if listed.next_key:
        meta["continue"] = ContinueToken(listed.revision, listed.next_key).encode()
        if listed.remaining:
            meta["remainingItemCount"] = listed.remaining
    return meta


async def list_query(served: InstalledResource, options: ListQueryOptions) -> ListQuery:
    """Return the query for storage: revision, start key and limit."""
    if options.token:
        token = ContinueToken.decode(options.token)
        if options.version and options.version != "0":
            raise api_errors.bad_request("specifying resource version is not allowed when using continue")
        if options.version == "0":
            return ListQuery(selection=options.selection, start=token.start)
        revision = None if token.revision < 0 else token.revision
        return ListQuery(selection=options.selection, revision=revision, start=token.start, limit=options.limit)
    revision = None
    if options.version:
        try:
            exact_revision = resource_version(options.version)
        except ApiError as error:
            raise api_errors.bad_request(f"invalid resource version: {error.message}") from None
        await wait_for_revision(served, options.version)
        exact = options.match == "Exact" or (not options.match and options.limit > 0)
        revision = exact_revision if exact and exact_revision else None
        if not exact_revision:
            # resourceVersion=0 is served from the watch cache, which ignores the limit.
            return ListQuery(selection=options.selection)
    return ListQuery(selection=options.selection, revision=revision, limit=options.limit)
