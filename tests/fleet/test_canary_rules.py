"""The rule of a canary: as a function, and played by members of two versions with faults."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from opsdk.errors import DecodeError, UsageError
from opsdk.fleet.canary_rules import (
    CANARY_ANNOTATION,
    Canary,
    CanaryPhase,
    canary_lease,
    place_versions,
    read_canary,
)
from opsdk.fleet.ownership_rules import OwnershipRules
from opsdk.fleet.placement import place
from opsdk.fleet.shard_lease import holder_of, shard_of
from tests.fleet.canary_model import NEW, OLD, CanaryModel

SEEDS = [*range(3), *(pytest.param(seed, marks=[pytest.mark.slow, pytest.mark.deep]) for seed in range(3, 60))]
SHARDS = tuple(f"s{number}" for number in range(6))
VERSIONS = st.dictionaries(st.sampled_from([f"m{n}" for n in range(6)]), st.sampled_from(["", OLD, NEW, "3"]))
CANARIES = st.builds(
    Canary,
    version=st.just(NEW),
    base=st.sampled_from(["", OLD]),
    shards=st.lists(st.sampled_from([*SHARDS, "other"]), unique=True).map(tuple),
    phase=st.sampled_from(CanaryPhase),
    fallback=st.booleans(),
)
CHOICE = Canary(version=NEW, base=OLD, shards=("s1", "s2"))


# -------------------------------------------------------------- the function
@given(VERSIONS, CANARIES)
def test_each_shard_has_at_most_one_version_and_it_is_the_wanted_one_if_it_lives(
    versions: dict[str, str], canary: Canary
) -> None:
    """A shard goes to its own version, and to another one only if that has no member and a fallback is allowed."""
    placed = place_versions(versions, SHARDS, canary, load_factor=1.25)
    alive = set(versions.values())
    for shard in SHARDS:
        own_versions = {
            CanaryPhase.RUNNING: {canary.version if shard in canary.shards else canary.base},
            CanaryPhase.PROMOTED: alive - {canary.base},
            CanaryPhase.ABORTED: alive - {canary.version},
        }[canary.phase]
        is_strict = canary.phase is CanaryPhase.RUNNING and not canary.fallback
        if own_versions & alive:
            assert versions[placed[shard]] in own_versions
        else:
            assert (shard in placed) == bool(versions and not is_strict)


@pytest.mark.slow
@given(VERSIONS, CANARIES)
def test_all_members_compute_the_same_placement(versions: dict[str, str], canary: Canary) -> None:
    """The order of members and shards does not matter, and a choice survives its annotation."""
    placed = place_versions(versions, SHARDS, canary, load_factor=1.25)
    read = read_canary([canary_lease("f", "n", canary)])
    assert read == canary
    assert place_versions(dict(reversed(versions.items())), SHARDS[::-1], read, load_factor=1.25) == placed
    assert place_versions(versions, SHARDS, None, load_factor=1.25) == place(versions, SHARDS)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version":"2","base":"2","shards":[]}', '{"version":"","base":"","shards":[]}']
)
def test_a_broken_annotation_is_an_error_that_says_what_to_do(text: str) -> None:
    """Users can write anything into an annotation."""
    lease = canary_lease("f", "n", CHOICE)
    lease.metadata.annotations[CANARY_ANNOTATION] = text
    with pytest.raises(DecodeError, match="opsdk canary start"):
        read_canary([lease])


def test_a_version_must_be_a_label_value() -> None:
    """A version that a Lease cannot have as its label is an error when it is declared."""
    with pytest.raises(UsageError, match="label"):
        replace(CanaryModel(0).options, version="1.0+build")


# -------------------------------------------------------------- members
def calm_model(canary: Canary | None, *, old: int = 2, new: int = 2) -> CanaryModel:
    """Return a model without faults that has come to rest."""
    model = CanaryModel(1, old=old, new=new)
    model.faults = False
    if canary is not None:
        model.choose(canary)
    model.run(60)
    return model


def expected(chosen: str, rest: str) -> dict[str, list[str]]:
    """Return the versions of the shards with `CHOICE`."""
    return {shard: [chosen if shard in CHOICE.shards else rest] for shard in SHARDS}


def test_a_canary_runs_is_promoted_and_rolled_back() -> None:
    """The new version owns the chosen shards, then all, and after an abort none."""
    model = calm_model(CHOICE)
    assert model.owner_versions() == expected(NEW, OLD)
    model.choose(replace(CHOICE, phase=CanaryPhase.PROMOTED))
    model.run(60)
    assert model.owner_versions() == expected(NEW, NEW)
    model.choose(replace(CHOICE, phase=CanaryPhase.ABORTED))
    model.run(60)
    assert model.owner_versions() == expected(OLD, OLD)
    assert model.overlaps == []


def test_the_choice_changes_while_shards_are_handed_over() -> None:
    """Other shards that are chosen in the middle of a hand-over go to the new version, and the former ones return."""
    model = calm_model(CHOICE)
    model.choose(replace(CHOICE, shards=("s3", "s4")))
    model.run(3)
    model.choose(replace(CHOICE, shards=("s1", "s4")))
    model.run(60)
    assert model.owner_versions() == {shard: [NEW if shard in ("s1", "s4") else OLD] for shard in SHARDS}
    assert model.overlaps == []


@pytest.mark.parametrize("version", [OLD, NEW])
def test_shards_of_a_crashed_version_go_to_the_other_one_after_the_lease(version: str) -> None:
    """Both directions: the pods of the canary crash, and the old version is gone. They return to their version."""
    model = calm_model(CHOICE)
    for member in model.members:
        member.dead = member.dead or model.version_of(member) == version
    other = NEW if version == OLD else OLD
    model.run(model.options.lease_duration + 5)
    assert model.owner_versions() == expected(other, other)
    model.spawn_version(version)
    model.run(60)
    assert model.owner_versions() == expected(NEW, OLD)
    assert model.overlaps == []


def test_without_a_fallback_chosen_shards_wait_for_their_version() -> None:
    """Before the canary's pods exist, the old version keeps the shards; after they crash, the shards wait."""
    model = calm_model(replace(CHOICE, fallback=False), new=0)
    model.run(30)
    assert model.owner_versions() == {shard: [] if shard in CHOICE.shards else [OLD] for shard in SHARDS}
    member = model.spawn_version(NEW)
    model.run(60)
    assert model.owner_versions() == expected(NEW, OLD)
    member.dead = True
    model.run(120)
    assert model.owner_versions() == {shard: [] if shard in CHOICE.shards else [OLD] for shard in SHARDS}


def test_a_holder_keeps_a_shard_until_a_member_of_its_version_is_ready() -> None:
    """A choice without members takes nothing away from the old version, also without a fallback."""
    model = calm_model(None, new=0)
    model.choose(replace(CHOICE, fallback=False))
    model.run(60)
    assert model.owner_versions() == expected(OLD, OLD)
    model.spawn_version(NEW)
    model.run(60)
    assert model.owner_versions() == expected(NEW, OLD)
    assert model.overlaps == []


def test_both_versions_upgraded_own_everything() -> None:
    """If the old Deployment also gets the new version, no shard waits for a member that does not return."""
    model = calm_model(CHOICE)
    for member in model.members:
        if model.version_of(member) == OLD:
            member.rules.leaving = True
            model.spawn_version(NEW)
    model.run(60)
    assert model.owner_versions() == expected(NEW, NEW)
    assert model.overlaps == []


def test_a_broken_choice_changes_nothing() -> None:
    """A member that cannot read a choice keeps the one before."""
    model = calm_model(CHOICE)
    model.choose(CHOICE, annotation="{")
    model.run(60)
    assert model.owner_versions() == expected(NEW, OLD)
    assert all("opsdk canary start" in m.rules.canary_problem for m in model.members if not m.dead)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_version_writes_for_a_shard_at_a_time_under_faults(seed: int) -> None:
    """No two members may write for a shard. At rest, each shard has an owner of the version that the choice names."""
    model = CanaryModel(seed, old=2, new=2)
    for _ in range(25):
        model.run(model.rng.uniform(1, 30))
        model.fault()
    model.choose(CHOICE)
    model.faults = False
    model.run(60)
    for version in (OLD, NEW):
        if version not in model.versions().values():
            model.spawn_version(version)
    model.shards = frozenset(SHARDS)
    model.settle()
    assert model.overlaps == []
    assert model.owner_versions() == expected(NEW, OLD)


def test_the_model_finds_a_new_version_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: members ignore that the holder of another version is alive."""

    def is_available(rules: OwnershipRules, _shard: object, holder: str) -> bool:
        return not holder or rules.version_of(holder) != rules.options.version

    monkeypatch.setattr(OwnershipRules, "_is_available", is_available)
    model = CanaryModel(1, old=2, new=2)
    model.faults = False
    model.choose(replace(CHOICE, phase=CanaryPhase.ABORTED))
    model.run(60)
    model.choose(CHOICE)
    model.run(30)
    assert model.overlaps


def test_the_lease_of_a_choice_is_no_shard_and_no_member() -> None:
    """Members of earlier releases ignore it: it names no shard, and has no holder."""
    lease = canary_lease("f", "n", CHOICE)
    assert (shard_of(lease), holder_of(lease)) == ("", "")
