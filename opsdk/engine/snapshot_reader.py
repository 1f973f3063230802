"""Takes a snapshot of a cluster, with reads only.

Upstream: k8s.io/client-go/tools/pager/pager.go (v1.36)
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from opsdk.aio.clock import utc_now
from opsdk.apimachinery.secret_values import redacted
from opsdk.engine.read_only import ReadOnlyTransport
from opsdk.engine.snapshot import ClusterSnapshot, SnapshotKind, Unseen
from opsdk.engine.snapshot_kinds import choose_kinds, named_namespaces
from opsdk.errors import ApiError, DecodeError, ForbiddenError, GoneError, OpsdkError
from opsdk.rbac.permissions import RuleSet
from opsdk.rest.config import RestConfig
from opsdk.rest.discovery import ApiResource, Discovery
from opsdk.rest.pages import Pages
from opsdk.rest.request import resource_path
from opsdk.structured_merge.tree_pool import TreePool
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject

__all__ = ["take_snapshot"]

_T = TypeVar("_T")
_PAGE: Final = 500
_TRIES: Final = 3
"""Lists of one kind until its pages were all read before the server compacted their revision."""


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "continue_token": "continue"}):
    resource_version: str = ""
    continue_token: str = ""


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[JsonObject] | None = None


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def take_snapshot(
    config: RestConfig,
    *,
    rules: RuleSet | None = None,
    names: Sequence[str] = (),
    secret_values: bool = False,
    progress: Callable[[SnapshotKind], None] = lambda _: None,
) -> ClusterSnapshot:
    """Read the objects of a cluster, by pages, with get and list only.

    All kinds are read at the resource version of the first list, where the server can still read it. A kind that the
    user may not list, or whose server is down, is missing and named in `ClusterSnapshot.unseen`. A kind that the user
    may not list in all namespaces is read in those that the rules name.

    Args:
        config: of the cluster, as the operator's service account or as a user.
        rules: of the operator, see `choose_kinds`; the kinds of owners are read too. None reads every kind.
        names: of further kinds, see `choose_kinds`.
        secret_values: take the values of Secrets too. Otherwise each value is a digest.
        progress: called after each kind.

    Raises:
        OpsdkError: the server cannot be reached, or refuses discovery.
    """
    async with ReadOnlyTransport(config) as transport:
        reader = _Reader(transport, secret_values=secret_values, progress=progress)
        return await reader.read(rules, names)


class _Reader:
    """Reads one snapshot."""

    def __init__(
        self, transport: ReadOnlyTransport, *, secret_values: bool, progress: Callable[[SnapshotKind], None]
    ) -> None:
        self._transport, self._secret_values, self._progress = transport, secret_values, progress
        self._key = secrets.token_bytes(32)
        self._kinds: list[SnapshotKind] = []
        self._unseen: list[Unseen] = []
        self._objects: list[JsonObject] = []
        self._resource_version = ""
        self._asked = set[tuple[str, str]]()
        self._namespaces: Sequence[str] = ()
        self._pool = TreePool()

    async def read(self, rules: RuleSet | None, names: Sequence[str]) -> ClusterSnapshot:
        """Read the chosen kinds, one after the other."""
        taken_at = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
        version = _decode(await self._transport.get("/version"), _Version, "/version")
        discovered = await Discovery(self._transport).fetch()
        for api, failure in discovered.failures.items():
            self._unseen.append(Unseen(what=api, reason=f"discovery failed: {failure}"))
        everything = choose_kinds(discovered)
        self._namespaces = sorted(named_namespaces(rules))
        waiting = choose_kinds(discovered, rules, names=names)
        while waiting:
            for resource in waiting:
                await self._read_kind(resource)
            waiting = self._unread_owners(everything)
        return ClusterSnapshot(
            taken_at=taken_at,
            server_version=version.git_version,
            resource_version=self._resource_version,
            secret_values=self._secret_values,
            kinds=tuple(self._kinds),
            unseen=tuple(self._unseen),
            left_out=tuple(
                _kind_of(each).resource for each in everything if (each.group, each.kind) not in self._asked
            ),
            objects=self._objects,
        )

    def _unread_owners(self, everything: Iterable[ApiResource]) -> Sequence[ApiResource]:
        """Return the kinds of owners that were not read yet.

        Without its owner, an object would lose the reference: the garbage collector must not delete it in a fork.
        """
        owners = {
            (str(owner.get("apiVersion", "")).rpartition("/")[0], owner.get("kind"))
            for obj in self._objects
            for owner in obj["metadata"].get("ownerReferences") or ()
        }
        return [each for each in everything if (key := (each.group, each.kind)) in owners and key not in self._asked]

    async def _read_kind(self, resource: ApiResource) -> None:
        self._asked.add((resource.group, resource.kind))
        kind = _kind_of(resource)
        try:
            objects, resource_version = await self._list(kind)
        except ForbiddenError as error:
            besides, objects, resource_version = await self._list_in_namespaces(kind)
            self._unseen.append(Unseen(what=kind.resource, reason=str(error), kind=kind.kind, besides=tuple(besides)))
            if not besides:
                return
        except OpsdkError as error:
            self._unseen.append(Unseen(what=kind.resource, reason=str(error), kind=kind.kind))
            return
        self._resource_version = self._resource_version or resource_version
        kind = msgspec.structs.replace(kind, count=len(objects), resource_version=resource_version)
        self._kinds.append(kind)
        self._objects += objects
        self._progress(kind)

    async def _list_in_namespaces(self, kind: SnapshotKind) -> tuple[list[str], list[JsonObject], str]:
        """Return the namespaces that the user may list, with their objects and the resource version of a list."""
        besides, objects, resource_version = list[str](), list[JsonObject](), ""
        for namespace in self._namespaces if kind.namespaced else ():
            try:
                listed, resource_version = await self._list(kind, namespace)
            except OpsdkError:  # the reason of the list in all namespaces is the one that is named
                continue
            besides.append(namespace)
            objects += listed
        return besides, objects, resource_version

    async def _list(self, kind: SnapshotKind, namespace: str = "") -> tuple[list[JsonObject], str]:
        """Return all objects of a kind, in one namespace or in all, and the resource version of the list.

        Raises `OpsdkError` if the server refuses the list, or compacts each one before its last page is read.
        """
        exact = self._resource_version
        for _ in range(_TRIES - 1):
            try:
                return await self._pages(kind, namespace, exact)
            except GoneError:
                exact = ""
            except ApiError as error:
                # An aggregated server has revisions of its own, and does not know this one.
                if not exact or error.code not in (400, 410, 504):
                    raise
                exact = ""
        return await self._pages(kind, namespace, "")

    async def _pages(self, kind: SnapshotKind, namespace: str, exact: str) -> tuple[list[JsonObject], str]:
        path = resource_path(kind.group, kind.version, kind.plural, namespace=namespace)
        objects: list[JsonObject] = []
        pages = Pages(kind.plural)
        query = [("limit", str(_PAGE))]
        if exact:
            query += [("resourceVersion", exact), ("resourceVersionMatch", "Exact")]
        while True:
            page = _decode(await self._transport.get(path, *query), _List, path)
            try:
                objects += [self._pool.share_parts(self._complete(item, kind)) for item in page.items or ()]
            except RecursionError as error:
                raise DecodeError(f"GET {path}: an object is nested too deeply") from error
            if not page.metadata.continue_token:
                return objects, page.metadata.resource_version
            pages.check(page.metadata.continue_token, progress=bool(page.items))
            query = [("limit", str(_PAGE)), ("continue", page.metadata.continue_token)]

    def _complete(self, item: JsonObject, kind: SnapshotKind) -> JsonObject:
        """Return an item of a list as an object of its own, without values of Secrets."""
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, **item}
        return obj if self._secret_values else redacted(obj, self._key)


def _kind_of(resource: ApiResource) -> SnapshotKind:
    return SnapshotKind(
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        plural=resource.plural,
        namespaced=resource.namespaced,
    )


def _decode(body: bytes, kind: type[_T], path: str) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except JSON_ERRORS as error:
        raise DecodeError(f"GET {path}: {error}: {body[:80]!r}") from error
