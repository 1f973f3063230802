"""ControllerRevisions: the template history of StatefulSets and DaemonSets. Pure.

Upstream: pkg/controller/history/controller_history.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from envtest.controllers.objects import owner_reference
from envtest.controllers.rollout import template_hash
from envtest.controllers.writes import REVISIONS, CreateWrite, DeleteWrite, PatchWrite, Write
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.structured_merge.value import JsonObject

HASH = "controller-revision-hash"
_OF_STATEFUL_SETS = "controller.kubernetes.io/hash"


def existing_revision(owner: JsonObject, revisions: Sequence[JsonObject]) -> JsonObject | None:
    """Return the latest revision with the owner's current template, or None."""
    data = revision_data(owner)
    matching = [r for r in revisions if r.get("data") == data]
    return max(matching, key=lambda r: int(r.get("revision", 0)), default=None)


def revision_name(owner: JsonObject, revisions: Sequence[JsonObject] = ()) -> str:
    """Return the name of the existing or new revision of the owner's current template."""
    existing = existing_revision(owner, revisions)
    if existing is not None:
        return str(existing["metadata"]["name"])
    taken = {r["metadata"]["name"] for r in revisions}
    collisions = int((owner.get("status") or {}).get("collisionCount") or 0)
    while True:
        name = f"{owner['metadata']['name']}-{template_hash(owner['spec']['template'], collisions)}"
        if name not in taken:
            return name
        collisions += 1


def revision_data(owner: JsonObject) -> JsonObject:
    """Return the ``data`` of a revision: a patch that restores the current template."""
    template: JsonObject = copy_tree(owner["spec"]["template"])
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def template_of(revision: JsonObject) -> JsonObject:
    """Return the template in a revision's data."""
    template = revision["data"]["spec"]["template"]
    return {k: v for k, v in template.items() if k != "$patch"}


def record_revision(owner: JsonObject, revisions: Sequence[JsonObject]) -> list[Write]:
    """Return the write that makes the current template the latest revision."""
    latest = max((r.get("revision", 0) for r in revisions), default=0)
    existing = existing_revision(owner, revisions)
    if existing is None:
        name = revision_name(owner, revisions)
        number = latest + 1
        meta = owner["metadata"]
        labels = dict((owner["spec"]["template"].get("metadata") or {}).get("labels") or {})
        labels[_OF_STATEFUL_SETS if owner["kind"] == "StatefulSet" else HASH] = name.rpartition("-")[2]
        revision: JsonObject = {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(owner)],
        }
        if meta.get("annotations"):
            revision["annotations"] = dict(meta["annotations"])
        return [
            CreateWrite(
                REVISIONS,
                {
                    "kind": "ControllerRevision",
                    "apiVersion": "apps/v1",
                    "metadata": revision,
                    "revision": number,
                    "data": revision_data(owner),
                },
            )
        ]
    if existing.get("revision", 0) < latest:
        return [PatchWrite(REVISIONS, existing, {"revision": latest + 1})]
    return []


def truncate_history(owner: JsonObject, revisions: Sequence[JsonObject], used: Collection[str]) -> list[Write]:
    """Return the deletions of unused revisions above the history limit."""
    limit = owner["spec"].get("revisionHistoryLimit", 10)
    idle = [r for r in revisions if r["metadata"]["name"] not in used]
    idle.sort(key=lambda r: r.get("revision", 0))
    return [DeleteWrite(REVISIONS, r) for r in idle[: max(len(idle) - limit, 0)]]
