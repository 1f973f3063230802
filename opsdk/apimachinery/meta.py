"""Metadata that every object carries, and other shared types of the ``meta.k8s.io`` group.

Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/types.go (v1.36)
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from opsdk.apimachinery.model import Model
from opsdk.apimachinery.time import Time
from opsdk.structured_merge.value import JsonObject


class OwnerReference(Model, kw_only=True):
    """Points from a dependent object to its owner. The garbage collector follows it."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedFieldsEntry(Model, kw_only=True):
    """The fields that one field manager owns."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: Time | None = None
    fields_type: str = ""
    fields_v1: JsonObject | None = msgspec.field(default=None, name="fieldsV1")
    subresource: str = ""


class UnsetMap(dict[str, str]):
    """The default of `ObjectMeta.labels` and `ObjectMeta.annotations`: empty, and not assigned.

    A conversion that leaves the labels out keeps them, and one that assigns an empty dict removes them.
    """

    __slots__ = ()


class ObjectMeta(Model, kw_only=True):
    """Name, identity and bookkeeping of an object.

    The server sets `uid`, `resource_version`, `generation` and the timestamps. Treat `resource_version` as opaque:
    send it back unchanged to detect concurrent changes.
    """

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = msgspec.field(default_factory=UnsetMap)
    annotations: dict[str, str] = msgspec.field(default_factory=UnsetMap)
    owner_references: list[OwnerReference] = msgspec.field(default_factory=list)
    finalizers: list[str] = msgspec.field(default_factory=list)
    managed_fields: list[ManagedFieldsEntry] = msgspec.field(default_factory=list)


class ListMeta(Model, kw_only=True):
    """Metadata of a list: the resource version of the snapshot and the token of the next page."""

    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None
    self_link: str = ""


class Condition(Model, kw_only=True):
    """One aspect of an object's state (``metav1.Condition``)."""

    # Go sends them without omitempty, and the schema of conditions requires them.
    always_sent: ClassVar[frozenset[str]] = frozenset({"reason", "message"})

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    observed_generation: int = 0


class LabelSelectorRequirement(Model, kw_only=True):
    """One requirement on a label. `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: list[str] = msgspec.field(default_factory=list)


class FieldSelectorRequirement(Model, kw_only=True):
    """One requirement on a field. `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: list[str] = msgspec.field(default_factory=list)


class LabelSelector(Model, kw_only=True):
    """A label selector as it appears in objects. All parts must match; an empty selector matches every object."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: list[LabelSelectorRequirement] = msgspec.field(default_factory=list)
