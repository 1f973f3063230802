"""One kind's rules without a server: defaults, validation, warnings."""

from __future__ import annotations

from typing import Any

from envtest.data.resources import ServedResourceRow
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.trees import kinds, known, model_of


def row_of(resource: str) -> ServedResourceRow:
    """A kind's row, by ``group/resource``."""
    group, _, name = resource.rpartition("/")
    return next(row for row in kinds() if (row.info.group, row.info.resource) == (group, name))


def read(resource: str, tree: JsonObject) -> JsonObject:
    """An object as the server takes it in."""
    row = row_of(resource)
    meta: JsonObject = {"name": "a", **({"namespace": "default"} if row.info.namespaced else {})}
    whole = {**tree, "metadata": {**meta, "uid": "u", **tree.get("metadata", {})}}
    model = model_of(row)
    return model.default(model.decode(whole).obj)


def _shown(causes: list[Cause]) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in causes]


def wrong(resource: str, tree: JsonObject, old: JsonObject | None = None) -> list[str]:
    """What is wrong with a new object, or with one that replaces `old`."""
    row = row_of(resource)
    strategy = known().strategy(row, has_status=True)
    call = Context(namespace="default" if row.info.namespaced else "")
    obj = read(resource, tree)
    if old is None:
        strategy.prepare_for_create(call, obj)
        return _shown([*strategy.validate(call, obj)])
    before = read(resource, old)
    status = before.get("status")
    strategy.prepare_for_create(call, before)
    before.update({} if status is None else {"status": status})
    strategy.prepare_for_update(call, obj, before)
    return _shown([*strategy.validate_update(call, obj, before)])


def warned(resource: str, tree: JsonObject, old: JsonObject | None = None) -> list[str]:
    """Return the warnings of a create, or of an update."""
    strategy = known().strategy(row_of(resource), has_status=True)
    before = None if old is None else read(resource, old)
    return list(strategy.warnings(Context(), read(resource, tree), before))


def changed(tree: JsonObject, path: str, value: Any) -> JsonObject:
    """A copy with another value at a dotted path; None takes it away."""
    created: JsonObject = copy_tree(tree)
    parent: Any = created
    *before, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in before:
        parent = parent.setdefault(part, {}) if isinstance(parent, dict) else parent[part]
    if value is None:
        parent.pop(last, None)
    else:
        parent[last] = value
    return created
