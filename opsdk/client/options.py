"""Options of the verbs, as frozen values. The client's methods take the same names as keyword arguments.

Upstream: sigs.k8s.io/controller-runtime/pkg/client/options.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, TypeVar

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.selectors import FieldSelector, LabelRequirements
from opsdk.apimachinery.status import PropagationPolicy
from opsdk.errors import UsageError

FieldValidation = Literal["Ignore", "Warn", "Strict"]
ResourceVersionMatch = Literal["Exact", "NotOlderThan"]


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of every read.

    Attributes:
        resource_version: empty for the latest; ``"0"`` for any version in the server's cache; else at least this one.
        uncached: read from the server even if the client has a cache.
        read_own_writes: a cached read is never older than the last write through this client.
        max_staleness: seconds; raise `StaleCacheError` if the cache received nothing from the server for longer. An
            idle watch sends a bookmark once a minute.
    """

    resource_version: str = ""
    uncached: bool = False
    read_own_writes: bool = True
    max_staleness: float | None = None


class GetOptions(ReadOptions, frozen=True, kw_only=True):
    """Options to read one object; see `ReadOptions`."""


class ListOptions(ReadOptions, frozen=True, kw_only=True):
    """Options to read many objects.

    Attributes:
        namespace: empty for all namespaces.
        label_selector: the labels of the objects.
        field_selector: the fields of the objects.
        limit: the largest number of objects; ``metadata.continue_token`` of the response leads to the next page. None:
            all.
        continue_token: from the previous page.
        resource_version: see `resource_version_match`.
        resource_version_match: ``Exact`` or ``NotOlderThan``; None leaves it to the server.
        uncached: read from the server even if the client has a cache.
        read_own_writes: see `ReadOptions`.
        max_staleness: see `ReadOptions`.
        shard_selector: only objects of a range of hashes, see `opsdk.cache.shard`. Servers without the feature gate
            ShardedListAndWatch ignore it.
        owner_uid: only objects with an owner reference to this uid. The cache does not decode the others; without a
            cache, the client drops them from the server's response.
        exclude: keys of objects to leave out, see `owner_uid`.
    """

    namespace: str = ""
    label_selector: LabelRequirements = LabelRequirements()
    field_selector: FieldSelector = FieldSelector()
    limit: int | None = None
    continue_token: str = ""
    resource_version_match: ResourceVersionMatch | None = None
    shard_selector: str = ""
    owner_uid: str = ""
    exclude: frozenset[ObjectKey] = frozenset()


class WatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options to watch changes.

    Attributes:
        namespace: empty for all namespaces.
        label_selector: the labels of the objects.
        field_selector: the fields of the objects.
        resource_version: watch changes after this version; empty starts with the existing objects as ADDED.
        bookmarks: request BOOKMARK events, so that a resumed watch starts from a recent version.
        timeout: seconds until the server ends the watch; None leaves it to the server (30-60 minutes).
        initial_events: request a streaming list: the existing objects, then a bookmark that marks their end.
        shard_selector: see `ListOptions`.
    """

    namespace: str = ""
    label_selector: LabelRequirements = LabelRequirements()
    field_selector: FieldSelector = FieldSelector()
    resource_version: str = ""
    bookmarks: bool = False
    timeout: int | None = None
    initial_events: bool = False
    shard_selector: str = ""


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Options of every write.

    Attributes:
        dry_run: run admission and validation, but do not store the result.
        field_owner: the manager's name in ``managedFields``; at most 128 printable characters.
        field_validation: how to treat unknown fields; None leaves it to the server (Warn).
        force: only for apply: take fields over from other managers.
    """

    dry_run: bool = False
    field_owner: str = ""
    field_validation: FieldValidation | None = None
    force: bool = False


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options to delete.

    Attributes:
        dry_run: run admission and validation, but do not delete.
        grace_period_seconds: seconds for the object (a pod) to terminate; None for the object's own value.
        propagation: how dependents are deleted; None for the kind's default.
        uid: delete only the object with this uid.
        resource_version: delete only this version of the object.
        missing_ok: do not raise if the object does not exist.
    """

    dry_run: bool = False
    grace_period_seconds: int | None = None
    propagation: PropagationPolicy | None = None
    uid: str = ""
    resource_version: str = ""
    missing_ok: bool = False


OptionsT = TypeVar("OptionsT", bound=WriteOptions | DeleteOptions)


def options_of(form: type[OptionsT], keywords: Mapping[str, Any]) -> OptionsT:
    """Return the options of a write. Raises `UsageError` for a keyword that they do not have."""
    try:
        return form(**keywords)
    except TypeError as error:
        unknown = ", ".join(sorted(keywords.keys() - set(form.__struct_fields__)))
        what = "a delete" if form is DeleteOptions else "a write"
        raise UsageError(f"{what} does not take {unknown}: it takes {', '.join(form.__struct_fields__)}") from error


# The keyword arguments of the client's methods, named and documented as in the options above.
class WriteKeywords(TypedDict, total=False):
    """Keywords of create, update and patch; see `WriteOptions`."""

    dry_run: bool
    field_owner: str
    field_validation: FieldValidation | None


class ApplyKeywords(TypedDict, total=False):
    """Keywords of apply; see `WriteOptions`."""

    dry_run: bool
    field_owner: str
    force: bool


class DeleteKeywords(TypedDict, total=False):
    """Keywords of delete; see `DeleteOptions`."""

    dry_run: bool
    grace_period_seconds: int | None
    propagation: PropagationPolicy | None
    uid: str
    resource_version: str
    missing_ok: bool
