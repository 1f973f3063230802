"""API Priority and Fairness as clients see it: the FlowSchema and priority level of a request.

Requests are not limited. Responses have the headers of the schema and its priority level; schemas have a condition.

Upstream: k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from cachetools import LRUCache

from envtest.data.flowcontrol import GROUP
from opsdk.aio.tasks import TaskOwner
from opsdk.apiserver.auth.service_accounts import split_username
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.apiserver.endpoints.request_deadline import long_running
from opsdk.apiserver.endpoints.request_info import RequestInfo
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.storage.ports import KeyNotFoundError, LocalStorage, Remove, StorageChange
from opsdk.http.server.response import HttpResponse
from opsdk.structured_merge.value import JsonObject, JsonValue

SCHEMAS: Final = f"{GROUP}/flowschemas/"
LEVELS: Final = f"{GROUP}/prioritylevelconfigurations/"
_MANAGER = "api-priority-and-fairness-config-consumer-v1"
_REMEMBERED = 1024


class Flow(msgspec.Struct, frozen=True):
    """A compiled FlowSchema."""

    name: str
    uid: str
    level: str
    precedence: int
    rules: Sequence[Mapping[str, JsonValue]]

    def matches(self, user: User, info: RequestInfo) -> bool:
        """Return whether the flow matches a request of a user."""
        return any(
            any(_matches_subject(subject, user) for subject in rule.get("subjects") or ()) and _matches_rule(rule, info)
            for rule in self.rules
        )


def flows_of(schemas: Iterable[JsonObject]) -> list[Flow]:
    """Return the flows in matching order."""
    flows = [
        Flow(
            name=obj["metadata"]["name"],
            uid=obj["metadata"].get("uid", ""),
            level=obj["spec"]["priorityLevelConfiguration"]["name"],
            precedence=obj["spec"].get("matchingPrecedence", 1000),
            rules=obj["spec"].get("rules") or (),
        )
        for obj in schemas
    ]
    return sorted(flows, key=lambda flow: (flow.precedence, flow.name))


def _matches_subject(subject: Mapping[str, JsonValue], user: User) -> bool:
    match subject.get("kind"):
        case "User":
            return subject["user"]["name"] in ("*", user.name)
        case "Group":
            name = subject["group"]["name"]
            return name == "*" or name in user.groups
        case _:
            account, actual = subject["serviceAccount"], split_username(user.name)
            return actual is not None and actual[0] == account["namespace"] and account["name"] in ("*", actual[1])


def _matches_rule(rule: Mapping[str, JsonValue], info: RequestInfo) -> bool:
    if info.is_resource:
        return any(_matches_resource_rule(part, info) for part in rule.get("resourceRules") or ())
    return any(
        _contains(part["verbs"], info.verb)
        and any(
            (url in ("*", info.path) or (url.endswith("/*") and info.path.startswith(url.removesuffix("*"))))
            for url in part["nonResourceURLs"]
        )
        for part in rule.get("nonResourceRules") or ()
    )


def _matches_resource_rule(part: Mapping[str, JsonValue], info: RequestInfo) -> bool:
    resource_name = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    if not (_contains(part["verbs"], info.verb) and _contains(part["apiGroups"], info.group)):
        return False
    if not _contains(part["resources"], resource_name):
        return False
    if info.namespace:
        return _contains(part.get("namespaces") or (), info.namespace)
    return bool(part.get("clusterScope"))


def _contains(words: Sequence[str], word: str) -> bool:
    return word in words or "*" in words


def condition(level: str, now: str, *, exists: bool) -> JsonObject:
    """Return the condition Dangling of a FlowSchema."""
    text = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" '
    status, reason = ("False", "Found") if exists else ("True", "NotFound")
    text += "and it exists" if exists else "but there is no such object"
    return {"type": "Dangling", "status": status, "lastTransitionTime": now, "reason": reason, "message": text}


def with_condition(obj: JsonObject, condition: JsonObject) -> JsonObject | None:
    """Return the FlowSchema with the condition; None if it is unchanged."""
    conditions = list((obj.get("status") or {}).get("conditions") or ())
    old = next((c for c in conditions if c.get("type") == "Dangling"), None)
    if old is not None and (old.get("status"), old.get("message")) == (condition["status"], condition["message"]):
        return None
    if old is not None and old.get("status") == condition["status"]:
        condition = {**condition, "lastTransitionTime": old.get("lastTransitionTime")}
    remaining = [c for c in conditions if c is not old]
    keys = ("lastTransitionTime", "message", "reason", "status", "type")
    owned: JsonObject = {'k:{"type":"Dangling"}': {".": {}, **{f"f:{key}": {} for key in keys}}}
    owner = {
        "manager": _MANAGER,
        "operation": "Apply",
        "apiVersion": f"{GROUP}/v1",
        "time": condition["lastTransitionTime"],
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:conditions": owned}},
        "subresource": "status",
    }
    others = [entry for entry in obj["metadata"].get("managedFields") or () if entry.get("manager") != _MANAGER]
    meta = {**obj["metadata"], "managedFields": [owner, *others]}
    return {**obj, "metadata": meta, "status": {**(obj.get("status") or {}), "conditions": [*remaining, condition]}}


async def _desired_status(desired: JsonObject, current: JsonObject | None) -> JsonObject | Remove:
    if current is None:
        raise KeyNotFoundError("the schema has gone")
    return with_condition(current, desired) or current


class FlowControl:
    """Classifies requests by the stored FlowSchemas and priority levels; a server filter."""

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage
        self._flows: list[Flow] | None = None
        self._levels: dict[str, str] = {}
        self._classified: LRUCache[object, tuple[str, str]] = LRUCache(_REMEMBERED)
        self._tasks = TaskOwner("flow-control")
        self._update_pending = False

    def __repr__(self) -> str:
        return f"<FlowControl of {self._storage!r}>"

    def start(self) -> None:
        """Follow the storage."""
        self._storage.subscribe(self._on_change, SCHEMAS, LEVELS)

    async def aclose(self) -> None:
        """Stop; idempotent."""
        self._storage.unsubscribe(self._on_change)
        await self._tasks.aclose()

    def _on_change(self, change: StorageChange) -> None:
        if not change.key.startswith((SCHEMAS, LEVELS)):
            return
        self._flows = None
        if not self._update_pending:
            self._update_pending = True
            self._tasks.start(self._update_dangling_conditions(), name="conditions")

    async def __call__(self, call: Call, handler: Handler) -> HttpResponse:
        """Set the headers of the FlowSchema and the priority level on every response."""
        if not long_running(call.info) or call.info.verb == "watch":
            schema, level = self.classify(call.user, call.info)
            call.headers += [
                ("x-kubernetes-pf-flowschema-uid", schema),
                ("x-kubernetes-pf-prioritylevel-uid", level),
            ]
        return await handler(call)

    def classify(self, user: User, info: RequestInfo) -> tuple[str, str]:
        """Return the uids of the FlowSchema and the priority level of a request."""
        if self._flows is None:
            self._reload()
        where = (info.group, info.resource, info.subresource, info.namespace) if info.is_resource else info.path
        key = (user.name, tuple(user.groups), info.verb, where)
        entry = self._classified.get(key)
        if entry is None:
            flows = [flow for flow in self._flows or () if flow.level in self._levels]
            # The last one is the catch-all.
            matching = next((flow for flow in flows if flow.matches(user, info)), flows[-1] if flows else None)
            entry = self._classified[key] = (
                ("", "") if matching is None else (matching.uid, self._levels[matching.level])
            )
        return entry

    def _reload(self) -> None:
        self._flows = flows_of(obj for _, obj in self._storage.list_now(SCHEMAS).items)
        levels = (obj["metadata"] for _, obj in self._storage.list_now(LEVELS).items)
        self._levels = {meta["name"]: meta.get("uid", "") for meta in levels}
        self._classified.clear()

    async def _update_dangling_conditions(self) -> None:
        """Set the condition Dangling of each flow schema: whether its priority level is missing."""
        self._update_pending = False
        self._reload()
        now = Context().timestamp()
        for key, obj in self._storage.list_now(SCHEMAS).items:
            level = obj["spec"]["priorityLevelConfiguration"]["name"]
            desired = condition(level, now, exists=level in self._levels)
            if with_condition(obj, desired) is None:
                continue
            try:
                await self._storage.guaranteed_update(key, partial(_desired_status, desired))
            except KeyNotFoundError:
                continue  # deleted concurrently
