"""The scale subresource.

Upstream: pkg/registry/apps/deployment/storage/storage.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from envtest.groups.common.label_selectors import selector_text
from opsdk.apiserver import api_errors
from opsdk.apiserver.fieldmanager.scale_handler import owners_of_scale, owners_of_scaled
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.rest import Transform, Validate, accept
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.structured_merge.fieldpath import Path
from opsdk.structured_merge.value import JsonObject

_REPLICAS: Path = ("f:spec", "f:replicas")
_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
Status = Callable[[JsonObject], JsonObject]
"""Returns the status of a scale, from the scaled object."""


def scale_of(obj: JsonObject, *, replicas: int, status: JsonObject) -> JsonObject:
    """Return the ``Scale`` of an object; zero replicas are omitted."""
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: obj["metadata"][k] for k in _META if k in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def built_in_scale(obj: JsonObject) -> JsonObject:
    """Return the scale of a built-in workload."""
    spec = obj.get("spec") or {}
    status: JsonObject = {"replicas": (obj.get("status") or {}).get("replicas", 0)}
    selector = selector_text(spec.get("selector") or {})
    if selector:
        status["selector"] = selector
    return scale_of(obj, replicas=spec.get("replicas", 0), status=status)


class ScaleStore:
    """The ``scale`` subresource: an update changes the replicas of the parent object."""

    def __init__(
        self,
        main: LocalStore,
        *,
        show: Callable[[JsonObject], JsonObject] = built_in_scale,
        to_write: Callable[[JsonObject], JsonObject] | None = None,
        put: Callable[[JsonObject, int], None] | None = None,
        replicas: Mapping[str, Path] | None = None,
    ) -> None:
        """`replicas`: the managedFields path of the replicas by apiVersion.

        `to_write` returns the scale of an object before an update; `show` by default.
        """
        self.main = main
        self._replicas = replicas or {main.info.api_version: _REPLICAS}
        self.strategy = Strategy()
        self.strategy.custom = main.strategy.custom
        self._show = show
        self._to_write = to_write or show
        self._put = put or _put_replicas

    async def get(self, context: Context, name: str) -> JsonObject:
        return self._show(await self.main.get(context, name))

    async def update(
        self,
        context: Context,
        name: str,
        transform: Transform,
        validate: Validate = accept,
        *,
        force_create: bool = False,
        uid: str = "",
    ) -> tuple[JsonObject, bool]:
        async def through(current: JsonObject | None) -> JsonObject:
            if current is None:
                raise api_errors.not_found(self.main.info, name)
            before = self._to_write(current)
            entries = current["metadata"].get("managedFields")
            if entries_of_scale := owners_of_scale(entries, self._replicas):
                before["metadata"]["managedFields"] = entries_of_scale
            desired = await transform(before)
            replicas = (desired.get("spec") or {}).get("replicas", 0)
            self._check_replicas(desired, name, replicas)
            await validate(desired, before)
            obj: JsonObject = copy_tree(current)
            meta = desired["metadata"]
            obj["metadata"]["resourceVersion"] = meta.get("resourceVersion") or obj["metadata"]["resourceVersion"]
            if meta.get("uid"):
                obj["metadata"]["uid"] = meta["uid"]
            self._put(obj, replicas)
            owners = owners_of_scaled(entries, meta.get("managedFields"), self._replicas, self.main.info.api_version)
            obj["metadata"].pop("managedFields", None)
            if owners:
                obj["metadata"]["managedFields"] = owners
            return obj

        stored, _ = await self.main.update(context, name, through, uid=uid)
        return self._show(stored), False

    def _check_replicas(self, desired: JsonObject, name: str, replicas: int) -> None:
        if replicas >= 0 or self.main.strategy.custom:
            return  # the schema of custom resources sets the minimum
        cause = api_errors.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise api_errors.invalid("Scale", "autoscaling", desired["metadata"].get("name", name), [cause])


def _put_replicas(obj: JsonObject, replicas: int) -> None:
    obj.setdefault("spec", {})["replicas"] = replicas
