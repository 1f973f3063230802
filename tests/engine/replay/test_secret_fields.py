"""A recording without secret values replays like one with them: kinds with passwords in their specs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

import envtest
from opsdk import Condition, Context, GroupVersionKind, Model, Object, ObjectMeta, Operator, crd_for
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.crd import json_schema
from opsdk.client.patch import merge_patch
from opsdk.engine.replay.run import OperatorReplay
from opsdk.engine.replay.timeline import Timeline
from opsdk.recording.redaction import Redactor
from opsdk.testing.simulate import Simulation, World

SECRET_TEXT = Annotated[str, json_schema({"format": "password"}), Meta(max_length=40)]


class AccountSpec(Model):
    """The desired state of an Account. Its bounds are shorter than a digest."""

    password: SECRET_TEXT = ""
    tokens: list[SECRET_TEXT] = field(default_factory=list)


class AccountStatus(Model):
    """The observed state of an Account."""

    login: str = ""
    conditions: list[Condition] = field(default_factory=list)


class Account(Object[AccountSpec, AccountStatus]):
    """A kind with a password."""

    gvk = GroupVersionKind("accounts.example.com", "v1", "Account")


def make_operator() -> Operator:
    """Return an operator that copies passwords as careless ones do, and generates those that are missing."""
    operator = Operator("accounts")

    @operator.reconciler(Account, owns=[ConfigMap])
    async def reconcile(account: Account, ctx: Context) -> None:
        if not account.spec.password:
            generated = f"generated-{ctx.reconcile_id}"[:40]
            await ctx.client.patch(account, merge_patch({"spec": {"password": generated}}))
            return
        login = f"db://{account.spec.password}@db"
        data = {"login": login, "tokens": ",".join(account.spec.tokens)}
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=account.metadata.name), data=data))
        ctx.event("Changed", f"the login is {login}")
        async with ctx.status(account) as patch:
            patch.status.login = login
            patch.set_condition("Ready", True, "Copied", f"with {account.spec.password}")

    return operator


async def make_account(world: World) -> None:
    """Create an account, with a password or without one."""
    number = world.rng.randrange(10**6)
    password = f"correct-horse-{number}" if number % 2 else ""
    meta = ObjectMeta(name=f"account-{number}", namespace="default")
    spec = AccountSpec(password=password, tokens=[f"token-of-{number}"])
    await world.client.create(Account(metadata=meta, spec=spec))


async def change_password(world: World) -> None:
    """Change the password of an account."""
    for account in await world.client.list(Account):
        await world.client.patch(account, merge_patch({"spec": {"password": f"another-{world.rng.random()}"}}))


async def accept(world: World) -> None:
    """Accept every end."""


SIMULATION = Simulation(
    operator=make_operator,
    environment=lambda: envtest.Environment(crds=[crd_for(Account)]),
    actions=[make_account, change_password],
    check=accept,
    max_actions=6,
)


def test_a_replay_without_passwords_is_identical() -> None:
    """The passwords of others, and those that the operator generates. No record has one."""
    count = 0
    for seed in range(4):
        _, starts = SIMULATION.record(seed)
        for start in starts:
            records = Redactor(b"key").redact(start.records)
            text = repr(records)
            count += text.count("digest:")
            assert not any(part in text for part in ("correct-horse", "another-0", "token-of", "generated-"))
            with OperatorReplay(Timeline(records), make_operator) as replay:
                outcome = replay.run()
            assert outcome.is_identical, [*map(str, outcome.divergences[:3]), *outcome.unsent[:3]]
    assert count > 20
