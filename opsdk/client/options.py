"""Options of the verbs, as frozen values. The client's methods take the same names as keyword arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from opsdk.apimachinery.selectors import FieldSelector, Selector
from opsdk.apimachinery.status import PropagationPolicy

FieldValidation = Literal["Ignore", "Warn", "Strict"]
ResourceVersionMatch = Literal["Exact", "NotOlderThan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptions:
    """How to read one object.

    Attributes:
        resource_version: empty for the latest, ``"0"`` for whatever the server has in memory, else at least this.
        uncached: read from the server even where the client has a cache.
    """

    resource_version: str = ""
    uncached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """Which objects to read, and how.

    Attributes:
        namespace: empty for all namespaces.
        limit: at most so many; the answer's ``metadata.continue_token`` leads on. None for all.
        continue_token: from a previous answer.
        uncached: read from the server even where the client has a cache.
    """

    namespace: str = ""
    label_selector: Selector = Selector()
    field_selector: FieldSelector = FieldSelector()
    limit: int | None = None
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: ResourceVersionMatch | None = None
    uncached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Which changes to watch.

    Attributes:
        resource_version: changes after this revision; empty begins with the present objects as ADDED.
        bookmarks: ask for BOOKMARK events, so that a resumed watch need not go far back.
        timeout: seconds after which the server ends the watch; None leaves it to the server (30-60 minutes).
        initial_events: ask for a streaming list (present objects, then a bookmark that says they are complete).
    """

    namespace: str = ""
    label_selector: Selector = Selector()
    field_selector: FieldSelector = FieldSelector()
    resource_version: str = ""
    bookmarks: bool = False
    timeout: int | None = None
    initial_events: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What holds for every write.

    Attributes:
        dry_run: do everything but store it.
        field_owner: the manager's name in ``managedFields``; at most 128 printable characters.
        field_validation: what to do with unknown fields; None leaves it to the server (Warn).
        force: apply only: take over fields that others own.
    """

    dry_run: bool = False
    field_owner: str = ""
    field_validation: FieldValidation | None = None
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """How to delete.

    Attributes:
        grace_period_seconds: seconds an object such as a pod may take to end; None for its own.
        propagation: what becomes of dependents; None for the kind's default.
        uid: delete only the object with this uid.
        resource_version: delete only this revision of it.
        missing_ok: not to find the object is success.
    """

    dry_run: bool = False
    grace_period_seconds: int | None = None
    propagation: PropagationPolicy | None = None
    uid: str = ""
    resource_version: str = ""
    missing_ok: bool = False
