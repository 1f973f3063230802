"""The writes that a server stored: the object, its states before and after, and the writer. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from opsdk.engine.differences import Difference, differences
from opsdk.structured_merge.value import JsonObject


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a write: user, field manager and verb."""

    user: str
    manager: str = ""
    verb: str = ""

    @property
    def program(self) -> str:
        """The field manager; the user without one."""
        return self.manager or self.user

    def __str__(self) -> str:
        return f"{self.user} (as {self.manager})" if self.manager and self.manager != self.user else self.user


SIMULATED = frozenset({"system:kube-controller-manager", "system:node:node-1"})
"""The users of simulated controllers."""
SERVER = Writer(user="kube-apiserver")
"""The writer of writes without a request."""
OWN_USERS = SIMULATED | {SERVER.user}
"""The users of the environment itself."""
RESTORE = Writer(user="envtest", verb="restore")
"""The writer of a restored snapshot."""


def is_manager_of(manager: str, operators: Collection[str]) -> bool:
    """Whether a field manager is one of some operators, or one of their controllers.

    >>> is_manager_of("shop/carts", {"shop"})
    True
    """
    return manager in operators or manager.rpartition("/")[0] in operators


class Ref(msgspec.Struct, frozen=True):
    """A reference to one object."""

    group: str
    resource: str
    namespace: str
    name: str

    @classmethod
    def from_key(cls, key: str) -> Ref:
        """Parse a storage key."""
        group, resource, *rest = key.split("/")
        return cls("" if group == "core" else group, resource, rest[0] if len(rest) > 1 else "", rest[-1])

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{what} {self.namespace}/{self.name}" if self.namespace else f"{what} {self.name}"


class Entry(msgspec.Struct, frozen=True):
    """One write.

    Attributes:
        before: the object before; None where it was created.
        after: the object after; None where it was removed.
    """

    revision: int
    writer: Writer
    key: str
    before: JsonObject | None
    after: JsonObject | None

    @property
    def ref(self) -> Ref:
        """The written object."""
        return Ref.from_key(self.key)

    @property
    def verb(self) -> str:
        """``create``, ``update`` or ``delete``: the effect on the object, not the request's verb."""
        if self.writer.verb == RESTORE.verb:
            return RESTORE.verb
        return "create" if self.before is None else "delete" if self.after is None else "update"

    @property
    def diff(self) -> Sequence[Difference]:
        """The changed fields, without metadata that the server maintains."""
        return differences(self.before, self.after)

    @property
    def changed_paths(self) -> tuple[str, ...]:
        """The fields that an update changed; none for another write. Computed at each call."""
        return tuple(difference.path for difference in self.diff) if self.verb == "update" else ()

    def __str__(self) -> str:
        rendered = f"{self.revision}: {self.writer}: {self.verb} {self.ref}"
        if self.verb != "update":
            return rendered
        return f"{rendered}: {', '.join(map(str, self.diff[:5])) or 'no difference'}"
