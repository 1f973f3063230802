"""ControllerRevisions: the templates that stateful and daemon sets have had. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from envtest.controllers.objects import owner_reference
from envtest.controllers.rollout import template_hash
from envtest.controllers.writes import REVISIONS, Create, Delete, Patch, Write
from opsdk.apiserver.storage.ports import Tree
from opsdk.apiserver.tree_copy import copy_tree

HASH = "controller-revision-hash"


def name_for(owner: Tree) -> str:
    """The revision of an owner's present template."""
    return f"{owner['metadata']['name']}-{template_hash(owner['spec']['template'])}"


def template_of(revision: Tree) -> Tree:
    """The template that a revision keeps."""
    template = revision["data"]["spec"]["template"]
    return {k: v for k, v in template.items() if k != "$patch"}


def keep(owner: Tree, revisions: Sequence[Tree]) -> list[Write]:
    """The write that records the present template as the latest, where it is not."""
    name = name_for(owner)
    latest = max((r.get("revision", 0) for r in revisions), default=0)
    known = next((r for r in revisions if r["metadata"]["name"] == name), None)
    if known is None:
        return [Create(REVISIONS, _new(owner, name, latest + 1))]
    if known.get("revision", 0) < latest:
        return [Patch(REVISIONS, known, {"revision": latest + 1})]
    return []


def _new(owner: Tree, name: str, number: int) -> Tree:
    meta = owner["metadata"]
    template: Tree = copy_tree(owner["spec"]["template"])
    labels = {**(template.get("metadata") or {}).get("labels", {}), HASH: name.rpartition("-")[2]}
    return {
        "kind": "ControllerRevision",
        "apiVersion": "apps/v1",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(owner)],
        },
        "revision": number,
        "data": {"spec": {"template": {**template, "$patch": "replace"}}},
    }


def surplus(owner: Tree, revisions: Sequence[Tree], used: Collection[str]) -> list[Write]:
    """The deletions of revisions that nobody uses, beyond the history's limit."""
    limit = owner["spec"].get("revisionHistoryLimit", 10)
    idle = [r for r in revisions if r["metadata"]["name"] not in used]
    idle.sort(key=lambda r: r.get("revision", 0))
    return [Delete(REVISIONS, r) for r in idle[: max(len(idle) - limit, 0)]]
