"""The parent of an ApplySet: an object that records the kinds and namespaces of a set.

Upstream: k8s.io/enhancements/keps/sig-cli/3659-kubectl-apply-prune
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.kinds import metadata_only
from opsdk.apimachinery.object import KubeObject, PartialObjectMetadata
from opsdk.children.set_identity import (
    APPLY_SET_ID,
    APPLY_SET_KINDS,
    APPLY_SET_NAMESPACES,
    APPLY_SET_TOOLING,
    SetOwner,
    format_group_kinds,
    parse_group_kinds,
)
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.errors import AlreadyOwnedError, NotFoundError

TOOLING: Final = "opsdk/v1"
SET_ANNOTATION: Final = "objectset.opsdk.dev/apply-set"
"""The id of the set whose ApplySet the parent is: an object can be the parent of one."""


class ApplySetParent:
    """Reads and writes the labels and annotations of a parent.

    Args:
        client: reads from the server, and writes.
        owner: the parent.
        set_id: of the set.
    """

    def __init__(self, client: Client, owner: SetOwner, set_id: str) -> None:
        self._client = client
        self._owner = owner
        self._set_id = set_id

    async def kinds(self) -> list[GroupKind]:
        """Return the recorded kinds; empty if the parent is gone. Raises `AlreadyOwnedError`."""
        parent = await self._client.get_or_none(metadata_only(self._owner.gvk), self._owner.key, uncached=True)
        return [] if parent is None else self._recorded(parent)

    async def record(self, kinds: Collection[GroupKind], desired: Sequence[KubeObject], *, keep: bool) -> None:
        """Record kinds and namespaces. Writes only on a change.

        Args:
            kinds: that may have objects of the set.
            desired: the objects, for their namespaces.
            keep: also keep the recorded kinds; needed before objects are written and deleted.

        Raises:
            AlreadyOwnedError: the parent is the parent of another ApplySet.
            NotFoundError: the parent is gone, and there are kinds to record.
        """
        key = self._owner.key
        parent = await self._client.get_or_none(metadata_only(self._owner.gvk), key, uncached=True)
        if parent is None:
            if not desired:
                return
            raise NotFoundError(
                f"{self._owner.gvk.kind} {key} does not exist, so the kinds of the ApplySet cannot be recorded on it"
            )
        annotations = parent.metadata.annotations
        namespaces = {child.metadata.namespace for child in desired}
        recorded = self._recorded(parent)
        if keep:
            kinds = {*kinds, *recorded}
            namespaces |= set(annotations.get(APPLY_SET_NAMESPACES, "").split(","))
        new = {
            APPLY_SET_TOOLING: TOOLING,
            APPLY_SET_KINDS: format_group_kinds(kinds),
            APPLY_SET_NAMESPACES: ",".join(sorted(namespaces - {"", key.namespace})),
            SET_ANNOTATION: self._set_id,
        }
        label = {APPLY_SET_ID: self._owner.apply_set_id}
        if label.items() <= parent.metadata.labels.items() and new.items() <= annotations.items():
            return
        target = PartialObjectMetadata(self._owner.gvk.api_version, self._owner.gvk.kind, parent.metadata)
        metadata = {"labels": label, "annotations": new, "resourceVersion": parent.metadata.resource_version}
        await self._client.patch(target, merge_patch({"metadata": metadata}))

    def _recorded(self, parent: KubeObject) -> list[GroupKind]:
        annotations = parent.metadata.annotations
        tooling = annotations.get(APPLY_SET_TOOLING, TOOLING)
        other = annotations.get(SET_ANNOTATION, self._set_id)
        if tooling.partition("/")[0] != "opsdk" or other != self._set_id:
            raise AlreadyOwnedError(
                f"{self._owner.gvk.kind} {self._owner.key} is already the parent of an ApplySet ({tooling}, set "
                f"{other or 'without id'}): use another owner, or neither apply_set nor dynamic_lookup"
            )
        return parse_group_kinds(annotations.get(APPLY_SET_KINDS, ""))
