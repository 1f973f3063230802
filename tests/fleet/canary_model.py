"""Members of two versions in one fleet, as a discrete-event simulation of the pure rules.

All faults of `fleet_model` occur, and the choice changes meanwhile: other shards, a promotion, an abort, no choice, a
broken one, and rolling updates of one version to the other.
"""

from __future__ import annotations

from collections.abc import Callable

from opsdk.fleet.canary_rules import CANARY_ANNOTATION, Canary, CanaryPhase, canary_lease, canary_lease_name
from tests.fleet.fleet_model import FleetModel, Member

OLD, NEW = "1", "2"


class CanaryModel(FleetModel):
    """Members of two versions, and a choice that changes."""

    def __init__(self, seed: int, *, old: int = 2, new: int = 2, shards: int = 6) -> None:
        self._next_versions = [OLD] * old + [NEW] * new
        super().__init__(seed, members=old + new, shards=shards)

    def version_of(self, member: Member) -> str:
        """Return the version of a member."""
        return member.rules.options.version

    def spawn(self) -> None:
        """Start a member: of the next version of the start, and then of any."""
        version = self._next_versions.pop(0) if self._next_versions else self.rng.choice([OLD, NEW])
        self.spawn_version(version)

    def spawn_version(self, version: str) -> Member:
        """Start a member of a version."""
        self._count += 1
        member = Member(self, f"m{self._count}", version)
        self.members.append(member)
        member.renew()
        member.round()
        return member

    def choose(self, canary: Canary | None, *, annotation: str = "") -> None:
        """Write a choice as the command does, or a broken annotation, or remove the Lease."""
        stored = self.server.leases.get(canary_lease_name("f"))
        if canary is None:
            if stored is not None:
                self.server.delete(stored)
            return
        lease = canary_lease("f", "n", canary)
        if annotation:
            lease.metadata.annotations[CANARY_ANNOTATION] = annotation
        if stored is not None:
            lease.metadata.resource_version = stored.metadata.resource_version
        assert self.server.write(lease) is not None

    def any_choice(self) -> Canary:
        """Return some choice."""
        names = tuple(sorted(self.shards))
        return Canary(
            version=NEW,
            base=OLD,
            shards=tuple(self.rng.sample(names, self.rng.randrange(len(names) + 1))),
            phase=self.rng.choice(list(CanaryPhase)),
            fallback=self.rng.random() < 0.7,
        )

    def fault(self) -> None:
        """Change the choice, or let a fault of a fleet occur."""
        if self.rng.random() > 0.5:
            super().fault()
            return
        changes: tuple[Callable[[], None], ...] = (
            lambda: self.choose(self.any_choice()),
            lambda: self.choose(self.any_choice()),
            lambda: self.choose(self.any_choice(), annotation="{"),
            lambda: self.choose(None),
        )
        self.rng.choice(changes)()

    def versions(self) -> dict[str, str]:
        """Return the version of each live member."""
        return {m.identity: self.version_of(m) for m in self.members if not m.dead and not m.rules.leaving}

    def owner_versions(self) -> dict[str, list[str]]:
        """Return the versions that may write for each shard."""
        versions = {m.identity: self.version_of(m) for m in self.members}
        return {shard: [versions[owner] for owner in owners] for shard, owners in self.owners().items()}
