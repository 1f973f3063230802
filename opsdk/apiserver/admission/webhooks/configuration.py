"""The webhooks of all configurations, reloaded after a change of one.

Upstream: k8s.io/apiserver/pkg/admission/configuration (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self

import msgspec

from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.apiserver.admission.matching import RuleWithOperations, rules_of, selector_of
from opsdk.apiserver.storage.ports import LocalStorage, StorageChange
from opsdk.apiserver.webhook_client.endpoint import ClientConfigTarget, target_of
from opsdk.structured_merge.value import JsonObject


class WebhookAccessor(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook of a configuration.

    Attributes:
        uid: distinguishes webhooks of the same name.
        ignore_failures: ``failurePolicy: Ignore``.
        timeout: seconds.
    """

    name: str
    uid: str
    client_config: JsonObject
    rules: tuple[RuleWithOperations, ...]
    namespaces: LabelRequirements = msgspec.field(default_factory=LabelRequirements)
    objects: LabelRequirements = msgspec.field(default_factory=LabelRequirements)
    ignore_failures: bool = False
    equivalent: bool = True
    timeout: int = 10
    side_effects: str = "None"
    versions: tuple[str, ...] = ("v1",)
    reinvoke: bool = False
    conditions: tuple[JsonObject, ...] = ()

    @classmethod
    def of(cls, tree: JsonObject, uid: str) -> Self:
        """Parse a validated and defaulted webhook."""
        return cls(
            name=tree["name"],
            uid=uid,
            client_config=tree["clientConfig"],
            rules=rules_of(tree.get("rules")),
            namespaces=selector_of(tree.get("namespaceSelector")),
            objects=selector_of(tree.get("objectSelector")),
            ignore_failures=tree.get("failurePolicy") == "Ignore",
            equivalent=tree.get("matchPolicy") != "Exact",
            timeout=tree.get("timeoutSeconds") or 10,
            side_effects=tree.get("sideEffects") or "None",
            versions=tuple(tree.get("admissionReviewVersions") or ()),
            reinvoke=tree.get("reinvocationPolicy") == "IfNeeded",
            conditions=tuple(tree.get("matchConditions") or ()),
        )

    def target(self) -> ClientConfigTarget:
        """Return the webhook's address. Raises `ClientConfigError`."""
        return target_of(self.client_config)


def hooks_of(configurations: Iterable[JsonObject]) -> tuple[WebhookAccessor, ...]:
    """Return all webhooks, sorted by configuration name, then in their listed order."""
    hooks: list[WebhookAccessor] = []
    for obj in sorted(configurations, key=lambda obj: str(obj["metadata"]["name"])):
        name, counts = obj["metadata"]["name"], dict[str, int]()
        for tree in obj.get("webhooks") or ():
            number = counts[tree["name"]] = counts.get(tree["name"], -1) + 1
            hooks.append(WebhookAccessor.of(tree, f"{name}/{tree['name']}/{number}"))
    return tuple(hooks)


class WebhookSource:
    """The webhooks of one kind of configuration. They are cached until a configuration changes.

    Args:
        load: returns all current configurations.
    """

    def __init__(self, storage: LocalStorage, prefix: str, load: Callable[[], Sequence[JsonObject]]) -> None:
        self._prefix = prefix
        self._load = load
        self._hooks: tuple[WebhookAccessor, ...] | None = None
        storage.subscribe(self._changed, prefix)

    def __repr__(self) -> str:
        return f"<WebhookSource webhooks under {self._prefix}>"

    def _changed(self, change: StorageChange) -> None:
        if change.key.startswith(self._prefix):
            self._hooks = None

    def hooks(self) -> tuple[WebhookAccessor, ...]:
        """Return the webhooks in calling order."""
        if self._hooks is None:
            self._hooks = hooks_of(self._load())
        return self._hooks
