"""The canary of an operator: the version that owns each shard of a fleet. Pure.

Members of two versions are in one fleet, and share its leases. The choice is one annotation of one more Lease of the
fleet, without a holder. Each member reads it in the list that has the leases of members and shards, so no member
combines a choice with members of another time.

The choice only limits the placement. A shard still has one holder, and moves only by the hand-over of
`opsdk.fleet.ownership_rules`: the old version drains its work before it writes the new holder. So members that have
read different choices delay a hand-over, and never overlap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any

import msgspec

from opsdk.api.coordination.v1 import Lease, LeaseSpec
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.validation import label_value
from opsdk.errors import DecodeError, UsageError
from opsdk.fleet.placement import place
from opsdk.fleet.shard_lease import FLEET_LABEL, ROLE_LABEL, LeaseRole

CANARY_ANNOTATION = "fleet.opsdk.dev/canary"


class CanaryPhase(Enum):
    """What a canary decides."""

    RUNNING = "running"
    """The new version owns the chosen shards, the old version the others."""
    PROMOTED = "promoted"
    """Every version but the old one owns all shards."""
    ABORTED = "aborted"
    """Every version but the new one owns all shards."""


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """A choice of shards for a version.

    Attributes:
        version: the new version.
        base: the old version; empty for members without a version.
        shards: the chosen shards.
        phase: see `CanaryPhase`.
        fallback: the shards of a version without a live member go to the other version. Without it, a shard of such a
            version waits while the canary runs. After a promotion and an abort there is always a fallback.
    """

    version: str
    base: str
    shards: tuple[str, ...]
    phase: CanaryPhase = CanaryPhase.RUNNING
    fallback: bool = True

    def __post_init__(self) -> None:
        if not self.version:
            raise UsageError("a canary needs the version of its members: set FleetOptions(version=...)")
        check_version(self.version)
        check_version(self.base)
        if self.version == self.base:
            raise UsageError(
                f"version {self.version} cannot be a canary of itself: give the new operator another version"
            )

    def members(self, shard: str, versions: Mapping[str, str]) -> frozenset[str]:
        """Return the members that may be placed for a shard; empty if it waits for its version.

        Args:
            shard: the shard.
            versions: the version of each live member.
        """
        groups = (_of(versions, {self.version}), _of(versions, {self.base}), frozenset(versions))
        canary, base, everyone = groups
        if self.phase is CanaryPhase.PROMOTED:
            return everyone - base or base
        if self.phase is CanaryPhase.ABORTED:
            return everyone - canary or canary
        first, second = (canary, base) if shard in self.shards else (base, canary)
        return first or ((second or everyone) if self.fallback else frozenset())

    def may_stand_in(self, shard: str, version: str) -> bool:
        """Whether a member of a version may take a shard without a live holder that its placed member does not take."""
        if self.fallback or self.phase is not CanaryPhase.RUNNING:
            return True
        return version == (self.version if shard in self.shards else self.base)


def _of(versions: Mapping[str, str], wanted: Collection[str]) -> frozenset[str]:
    return frozenset(member for member, version in versions.items() if version in wanted)


def check_version(version: str) -> None:
    """Raise `UsageError` unless a version is a label value, or empty.

    >>> check_version("1.4.0")
    """
    if problems := label_value(version):
        raise UsageError(f"version {version!r} cannot be the label of a Lease: {problems[0]}")


def place_versions(
    versions: Mapping[str, str], shards: Collection[str], canary: Canary | None, *, load_factor: float
) -> Mapping[str, str]:
    """Return the member of each shard, see `opsdk.fleet.placement.place`. A shard that waits is missing.

    >>> canary = Canary(version="2", base="1", shards=("red",))
    >>> place_versions({"old": "1", "new": "2"}, ["red", "blue"], canary, load_factor=1.25)
    {'red': 'new', 'blue': 'old'}
    """
    if canary is None:
        return place(versions.keys(), shards, load_factor=load_factor)
    groups: dict[frozenset[str], list[str]] = {}
    for shard in shards:
        groups.setdefault(canary.members(shard, versions), []).append(shard)
    placed: dict[str, str] = {}
    for members, names in groups.items():
        placed |= place(members, names, load_factor=load_factor)
    return {shard: placed[shard] for shard in shards if shard in placed}


# -------------------------------------------------------------- the Lease
def canary_lease(fleet: str, namespace: str, canary: Canary) -> Lease:
    """Return the Lease with the choice of a fleet."""
    metadata = ObjectMeta(
        name=canary_lease_name(fleet),
        namespace=namespace,
        labels={FLEET_LABEL: fleet, ROLE_LABEL: LeaseRole.CANARY.value},
        annotations={CANARY_ANNOTATION: encode_canary(canary)},
    )
    return Lease(metadata=metadata, spec=LeaseSpec())


def canary_lease_name(fleet: str) -> str:
    """Return the name of the Lease with the choice of a fleet.

    >>> canary_lease_name("shop")
    'shop-canary'
    """
    return f"{fleet}-{LeaseRole.CANARY.value}"


def encode_canary(canary: Canary) -> str:
    """Return a choice as the JSON of its annotation.

    >>> encode_canary(Canary(version="2", base="1", shards=("red",)))
    '{"version":"2","base":"1","shards":["red"],"phase":"running","fallback":true}'
    """
    return msgspec.json.encode(canary).decode()


def read_canary(leases: Iterable[Lease]) -> Canary | None:
    """Return the choice among the leases of a fleet; None without one.

    Raises:
        DecodeError: the annotation is not a choice.
    """
    for lease in leases:
        if lease.metadata.labels.get(ROLE_LABEL) == LeaseRole.CANARY.value:
            return _decode(lease)
    return None


def _decode(lease: Lease) -> Canary:
    text = lease.metadata.annotations.get(CANARY_ANNOTATION, "")
    try:
        return msgspec.json.decode(text, type=Canary)
    except (msgspec.DecodeError, UsageError, ValueError) as error:
        raise DecodeError(
            f"the annotation {CANARY_ANNOTATION} of Lease {lease.metadata.name} is no canary: {error}. "
            "Run opsdk canary start again, or delete the Lease."
        ) from error


def describe_canary(canary: Canary | None) -> dict[str, Any]:
    """Return a choice for JSON and debug pages; empty without one."""
    return dict(msgspec.to_builtins(canary)) if canary is not None else {}
