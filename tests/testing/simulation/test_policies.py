"""Policies under faults: no request passes that they refuse, and no change is lost, whatever happens to the server."""

from __future__ import annotations

import pytest

import envtest
from opsdk import Context, GroupVersionKind, MergeFrom, Model, Object, ObjectMeta, Operator, OperatorOptions, crd_for
from opsdk.api.core.v1 import ConfigMap
from opsdk.errors import ForbiddenError, InvalidError
from opsdk.recipes import is_deleting
from opsdk.testing.simulate import Simulation, World, simulate
from opsdk.webhook.policies import AdmissionRule, PolicyBinding, policy, policy_of

NAMESPACE = "default"
_problems: list[str] = []


class StallSpec(Model):
    """The size, and what the mutation adds."""

    size: int = 1
    owner: str | None = None


class StallStatus(Model):
    """The size that the operator saw."""

    size: int = 0


class Stall(Object[StallSpec, StallStatus]):
    """A kind."""

    gvk = GroupVersionKind("stalls.opsdk.dev", "v1", "Stall")


@policy(Stall)
class Limit:
    """At most the size in a ConfigMap, and an owner."""

    params = ConfigMap
    match_conditions = {"not-deleted": "!has(object.metadata.deletionTimestamp)"}  # noqa: RUF012 - as users write it
    rules = (AdmissionRule("object.spec.size <= int(params.data.most)", message="too large"),)
    mutations = ("Object{spec: Object.spec{owner: 'size-' + string(object.spec.size)}}",)
    bindings = (PolicyBinding(param_name="limit", param_namespace=NAMESPACE),)


def make_operator() -> Operator:
    """Return an operator that writes the size to the status."""
    operator = Operator("stalls", OperatorOptions(leader_election=True, leader_election_namespace=NAMESPACE))

    @operator.reconciler(Stall)
    async def reconcile(stall: Stall, ctx: Context) -> None:
        async with ctx.status(stall) as patch:
            patch.status.size = stall.spec.size

    operator.add_policy(Limit)
    return operator


async def set_limit(world: World) -> None:
    """Change the parameters, or delete them."""
    limit = await world.client.get_or_none(ConfigMap, f"{NAMESPACE}/limit")
    data = {"most": str(world.rng.randrange(2, 6))}
    if limit is None:
        await world.client.create(ConfigMap(metadata=ObjectMeta(name="limit", namespace=NAMESPACE), data=data))
    elif world.rng.random() < 0.2:
        await world.client.delete(limit)
    else:
        limit.data = data
        await world.client.patch(limit, MergeFrom())


async def write_stall(world: World) -> None:
    """Create a stall or change its size, and compare the decision of the server with that of the rule."""
    name, size = f"stall-{world.rng.randrange(3)}", world.rng.randrange(1, 8)
    limit = await world.client.get_or_none(ConfigMap, f"{NAMESPACE}/limit")
    stall = await world.client.get_or_none(Stall, f"{NAMESPACE}/{name}")
    if stall is not None and is_deleting(stall):
        return
    is_allowed = limit is not None and size <= int(limit.data["most"])
    try:
        if stall is None:
            meta = ObjectMeta(name=name, namespace=NAMESPACE)
            await world.client.create(Stall(metadata=meta, spec=StallSpec(size=size)))
        else:
            stall.spec.size = size
            await world.client.patch(stall, MergeFrom())
    except (ForbiddenError, InvalidError) as error:
        if is_allowed or not any(text in str(error) for text in ("too large", "no params found")):
            _problems.append(f"{name} of the size {size} is refused: {error}")
        return
    if not is_allowed:
        _problems.append(f"{name} of the size {size} is stored beside {limit}")


async def delete_stall(world: World) -> None:
    """Delete a stall."""
    if stalls := await world.client.list(Stall):
        await world.client.delete(world.rng.choice(list(stalls)), missing_ok=True)


async def stalls_are_as_decided(world: World) -> None:
    """Each stall has the owner of its size, and the operator saw it; the policies are as installed."""
    assert not _problems, _problems
    for stall in await world.client.list(Stall):
        assert stall.spec.owner == f"size-{stall.spec.size}", stall
        assert stall.status is not None, stall
        assert stall.status.size == stall.spec.size, stall


def _environment() -> envtest.Environment:
    _problems.clear()
    return envtest.Environment(crds=[crd_for(Stall)])


STALLS = Simulation(
    operator=make_operator,
    environment=_environment,
    actions=[set_limit, write_stall, write_stall, write_stall, delete_stall],
    check=stalls_are_as_decided,
    replicas=2,
)


def test_some_seeds() -> None:
    """Two schedules with all faults."""
    simulate(STALLS, range(2), name="STALLS")


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("block", range(10))
def test_three_hundred_seeds(block: int) -> None:
    """Thirty schedules in each block."""
    simulate(STALLS, range(block * 30, block * 30 + 30), name="STALLS")


def test_a_policy_without_its_binding_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation itself sees a server that decides nothing."""
    without = [tree for tree in policy_of(Limit).objects("stalls") if not tree["kind"].endswith("Binding")]
    monkeypatch.setattr(Operator, "admission_policies", lambda _: without)
    with pytest.raises(AssertionError, match="is stored beside"):
        simulate(STALLS, range(1), name="STALLS")
