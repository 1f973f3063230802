"""Takes over the fields of former field managers. Pure.

Upstream: k8s.io/client-go/util/csaupgrade/upgrade.go (v1.36)
Deviates: the applies of a former manager are taken over too, for an operator that was renamed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from opsdk.children.ownership import APPLY, OwnerEntry, applied_by, managers_of
from opsdk.structured_merge.fieldpath import EMPTY
from opsdk.structured_merge.value import JsonObject


class FormerOwners(msgspec.Struct, frozen=True):
    """The field managers that wrote objects before `field_owner` did.

    Attributes:
        field_owner: the manager of all applies.
        names: former managers; their applies and their updates are taken over. `field_owner` itself stands for its
            updates.
        former_applier: a former manager whose applies only are taken over; its updates are still made.
    """

    field_owner: str
    names: Collection[str] = ()
    former_applier: str = ""

    def __contains__(self, manager: object) -> bool:
        """Whether a manager applied before `field_owner`."""
        return manager in self.names or (manager == self.former_applier and bool(manager))

    def entries(self, managers: list[OwnerEntry]) -> list[OwnerEntry]:
        """Return the entries to take over."""
        return [entry for entry in managers if self._is_former(entry.name, entry.operation, entry.subresource)]

    def owner_in(self, tree: JsonObject) -> str | None:
        """Return the manager whose applies count as those of `field_owner`; None if entries must be taken over first.

        An object that was applied by one former manager alone needs no write while nothing differs.
        """
        managers = managers_of(tree)
        former = self.entries(managers)
        if not former:
            return self.field_owner
        is_only = len(former) == 1 and former[0].operation == APPLY and applied_by(managers, self.field_owner) is None
        return former[0].name if is_only else None

    def taken_over(self, tree: JsonObject) -> list[JsonObject]:
        """Return ``managedFields`` in which `field_owner` has the fields of the former managers."""
        former = self.entries(managers_of(tree))
        fields = EMPTY
        for entry in former:
            fields = fields.union(entry.fields)
        result: list[JsonObject] = []
        own: JsonObject | None = None
        for raw in tree["metadata"]["managedFields"]:
            identity = (raw.get("manager", ""), raw.get("operation", ""), raw.get("subresource", ""))
            if identity == (self.field_owner, APPLY, ""):
                own = dict(raw)
                result.append(own)
            elif not self._is_former(*identity):
                result.append(raw)
        if own is None:
            # As upstream: the newest former entry becomes the manager's own.
            newest = max(former, key=lambda entry: entry.time)
            own = {"manager": self.field_owner, "operation": APPLY, "apiVersion": newest.api_version}
            own |= {"time": newest.time} if newest.time else {}
            own["fieldsType"] = "FieldsV1"
            result.append(own)
        else:
            existing = applied_by(managers_of(tree), self.field_owner)
            fields = fields.union(existing.fields) if existing is not None else fields
        own["fieldsV1"] = fields.to_fields_v1()
        return result

    def patch(self, tree: JsonObject) -> list[dict[str, Any]]:
        """Return the JSON patch of the take-over. The server rejects it if the object has changed in the meantime."""
        version = tree["metadata"]["resourceVersion"]
        return [
            {"op": "replace", "path": "/metadata/managedFields", "value": self.taken_over(tree)},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]

    def _is_former(self, manager: str, operation: str, subresource: str) -> bool:
        if subresource:
            return False
        if operation == APPLY:
            return manager != self.field_owner and manager in self
        return manager in self.names
