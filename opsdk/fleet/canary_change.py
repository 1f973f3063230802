"""Reads and writes the choice of a canary, for the command ``opsdk canary`` and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from opsdk.api.coordination.v1 import Lease
from opsdk.client.client import Client
from opsdk.errors import AlreadyExistsError, ConflictError, DecodeError, UsageError
from opsdk.fleet.canary_rules import Canary, CanaryPhase, canary_lease, canary_lease_name, read_canary
from opsdk.fleet.shard_lease import FLEET_LABEL, ROLE_LABEL, LeaseRole, holder_of, shard_of, version_of

_ATTEMPTS = 5


class FleetView(msgspec.Struct, frozen=True, kw_only=True):
    """The leases of a fleet at one time.

    Attributes:
        fleet: its name.
        namespace: of the leases.
        canary: the choice; None without one.
        problem: why the choice cannot be used; empty if it can be.
        members: the version of each member that has a lease; a crashed member has one until another member deletes it.
        holders: the holder of each shard; empty for none.
    """

    fleet: str
    namespace: str
    canary: Canary | None
    problem: str
    members: Mapping[str, str]
    holders: Mapping[str, str]

    def versions(self) -> list[str]:
        """Return the versions of the members, sorted."""
        return sorted(set(self.members.values()))

    def version_of(self, shard: str) -> str | None:
        """Return the version that owns a shard; None without an owner."""
        return self.members.get(self.holders.get(shard, ""))

    def wanted_versions(self, shard: str) -> list[str]:
        """Return the versions that may own a shard, as far as they have members; sorted."""
        versions = self.members if self.canary is None else self._versions_of(self.canary, shard)
        return sorted(set(versions.values()))

    def _versions_of(self, canary: Canary, shard: str) -> dict[str, str]:
        return {member: self.members[member] for member in canary.members(shard, self.members)}

    def unsettled_shards(self) -> list[str]:
        """Return the shards whose owner is not of a wanted version."""
        return [shard for shard in self.holders if self.version_of(shard) not in self.wanted_versions(shard)]

    def unknown_shards(self) -> list[str]:
        """Return the chosen shards without a lease: no member knows them yet."""
        return [shard for shard in self.canary.shards if shard not in self.holders] if self.canary is not None else []


def start_canary(
    view: FleetView, version: str, shards: Sequence[str], *, base: str | None = None, fallback: bool = True
) -> Canary:
    """Return the choice of `shards` for a version: a new canary, or other shards of the running one.

    Args:
        view: the fleet.
        version: the new version. Its members need not run yet.
        shards: the chosen shards.
        base: the old version; None for the only other one that runs.
        fallback: see `Canary`.

    Raises:
        UsageError: there is no shard, another canary runs, or the old version is not clear.
    """
    if not shards:
        raise UsageError("which shards? Pass --shard NAME once for each namespace or shard of the canary")
    running = view.canary
    if running is not None and running.version == version and running.phase is CanaryPhase.RUNNING:
        base = running.base if base is None else base
    elif running is not None and running.phase is CanaryPhase.RUNNING:
        raise UsageError(f"version {running.version} is a canary: promote or abort it before version {version} starts")
    if base is None:
        others = [other for other in view.versions() if other != version]
        if len(others) != 1:
            names = ", ".join(other or "(without a version)" for other in others) or "none"
            raise UsageError(f"the other versions of the fleet {view.fleet} are {names}: pass --base VERSION")
        base = others[0]
    return Canary(version=version, base=base, shards=tuple(sorted(set(shards))), fallback=fallback)


def end_canary(view: FleetView, phase: CanaryPhase, *, force: bool = False) -> Canary:
    """Return the choice after a promotion or an abort. A promoted version can be aborted: a rollback.

    Raises:
        UsageError: there is no canary, or no member of the version that gets all shards. `force` ignores the second.
    """
    canary = view.canary
    if canary is None:
        raise UsageError(view.problem or f"the fleet {view.fleet} has no canary: opsdk canary start begins one")
    if phase is CanaryPhase.PROMOTED and canary.phase is CanaryPhase.ABORTED:
        raise UsageError(f"the canary of version {canary.version} was aborted: start it again before a promotion")
    retired = canary.base if phase is CanaryPhase.PROMOTED else canary.version
    if not force and not any(version != retired for version in view.members.values()):
        raise UsageError(f"no member of another version than {retired} runs: start one, or pass --force")
    return msgspec.structs.replace(canary, phase=phase)


class CanaryLease:
    """The choice of one fleet in a cluster.

    Args:
        client: reads from the server, not from a cache.
        fleet: the name of the fleet.
        namespace: of its leases.
    """

    def __init__(self, client: Client, fleet: str, namespace: str) -> None:
        self._client = client
        self._fleet, self._namespace = fleet, namespace

    async def view(self) -> FleetView:
        """Return the fleet as the server has it."""
        selector = f"{FLEET_LABEL}={self._fleet}"
        leases = (await self._client.list(Lease, namespace=self._namespace, label_selector=selector)).items
        try:
            canary, problem = read_canary(leases), ""
        except DecodeError as error:
            canary, problem = None, str(error)
        members = {holder_of(lease): version_of(lease) for lease in leases if _is_member(lease)}
        holders = {shard_of(lease): holder_of(lease) for lease in leases if shard_of(lease)}
        return FleetView(
            fleet=self._fleet,
            namespace=self._namespace,
            canary=canary,
            problem=problem,
            members=members,
            holders=dict(sorted(holders.items())),
        )

    async def write(self, canary: Canary) -> None:
        """Write the choice.

        Raises:
            ConflictError: others changed the Lease in each of several attempts.
        """
        choice = canary_lease(self._fleet, self._namespace, canary)
        for _ in range(_ATTEMPTS):
            name = canary_lease_name(self._fleet)
            stored = await self._client.get_or_none(Lease, name, namespace=self._namespace)
            try:
                if stored is None:
                    await self._client.create(choice)
                else:
                    stored.metadata.labels |= choice.metadata.labels
                    stored.metadata.annotations |= choice.metadata.annotations
                    await self._client.update(stored)
            except (ConflictError, AlreadyExistsError):
                continue
            return
        raise ConflictError(f"Lease {self._namespace}/{canary_lease_name(self._fleet)} changes all the time: try again")


def _is_member(lease: Lease) -> bool:
    return lease.metadata.labels.get(ROLE_LABEL) == LeaseRole.MEMBER.value and bool(holder_of(lease))
