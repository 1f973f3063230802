"""The samples and other operators, with what their users do, for plans."""

from __future__ import annotations

import importlib

import greeter
from application_simulation import APPLICATIONS
from planned_worlds import Scenario
from simulations import FAMILIES, SINGLES, WEBSITES, make_family_operator, make_single_operator

import fake_dns
import fake_service
import website.operator
from database.api import Database, DatabaseSpec, SecretReference
from opsdk import ObjectMeta, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Namespace, Secret
from opsdk.client.patch import merge_patch
from opsdk.testing.simulate import World
from secret_copier.copies import ROLE, TARGETS
from secret_copier.operator import make_operator as make_copier
from website.api import Website

NAMESPACE = "default"


# ---------------------------------------------------------------- greeter
def make_greeter() -> Operator:
    """Return a new operator: the module has one, which starts once."""
    importlib.reload(greeter)
    return greeter.operator


async def make_greeting(world: World) -> None:
    """Create a greeting."""
    meta = ObjectMeta(name=f"greeting-{world.rng.randrange(10**6)}", namespace=NAMESPACE)
    await world.client.create(greeter.Greeting(metadata=meta, spec=greeter.GreetingSpec(name="you")))


async def edit_greeting(world: World) -> None:
    """Change whom a greeting is for."""
    if greetings := list(await world.client.list(greeter.Greeting)):
        patch = merge_patch({"spec": {"name": f"you-{world.rng.randrange(100)}"}})
        await world.client.patch(world.rng.choice(greetings), patch)


async def delete_greeting(world: World) -> None:
    """Delete a greeting."""
    if greetings := list(await world.client.list(greeter.Greeting)):
        await world.client.delete(world.rng.choice(greetings))


# ---------------------------------------------------------------- secret-copier
async def make_source(world: World) -> None:
    """Create a Secret that is copied."""
    meta = ObjectMeta(
        name=f"source-{world.rng.randrange(10**6)}",
        namespace=NAMESPACE,
        labels={ROLE: "source"},
        annotations={TARGETS: "team=a"},
    )
    await world.client.create(Secret(metadata=meta, data={"key": b"1"}))


async def _sources(world: World) -> list[Secret]:
    return list(await world.client.list(Secret, namespace=NAMESPACE, label_selector=f"{ROLE}=source"))


async def edit_source(world: World) -> None:
    """Change the data of a source."""
    if sources := await _sources(world):
        await world.client.patch(world.rng.choice(sources), merge_patch({"data": {"key": "Mg=="}}))


async def delete_source(world: World) -> None:
    """Delete a source."""
    if sources := await _sources(world):
        await world.client.delete(world.rng.choice(sources))


async def make_namespace(world: World) -> None:
    """Create a namespace of one of two teams."""
    meta = ObjectMeta(name=f"team-{world.rng.randrange(10**6)}", labels={"team": world.rng.choice("ab")})
    await world.client.create(Namespace(metadata=meta))


async def move_namespace(world: World) -> None:
    """Give a namespace to a team."""
    if namespaces := [ns for ns in await world.client.list(Namespace) if ns.metadata.name.startswith("team-")]:
        patch = merge_patch({"metadata": {"labels": {"team": world.rng.choice("ab")}}})
        await world.client.patch(world.rng.choice(namespaces), patch)


# ---------------------------------------------------------------- database
async def make_database(world: World) -> None:
    """Create a Database with its credentials."""
    name = f"db-{world.rng.randrange(10**6)}"
    login = Secret(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data={"username": b"a", "password": b"b"})
    await world.client.create(login)
    spec = DatabaseSpec(engine="postgres", version="17", credentials=SecretReference(name=name))
    await world.client.create(Database(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec))


async def resize_database(world: World) -> None:
    """Change the number of replicas."""
    if databases := list(await world.client.list(Database)):
        patch = merge_patch({"spec": {"replicas": world.rng.randint(1, 4)}})
        await world.client.patch(world.rng.choice(databases), patch)


async def delete_database(world: World) -> None:
    """Delete a Database."""
    if databases := list(await world.client.list(Database)):
        await world.client.delete(world.rng.choice(databases))


# ---------------------------------------------------------------- an upgrade of the website operator
def make_new_website_operator() -> Operator:
    """Return a later version: each Pod has another label, and the Service another annotation."""
    module = importlib.reload(website.operator)

    def deployment(site: Website) -> Deployment:
        desired = website.children.deployment(site)
        assert desired.spec.template.metadata is not None
        desired.spec.template.metadata.labels["demo.opsdk.dev/version"] = "2"
        return desired

    module.deployment = deployment
    return module.make_operator()


def make_website_operator() -> Operator:
    """Return the sample's operator as it is."""
    return importlib.reload(website.operator).make_operator()


SCENARIOS = {
    "websites": Scenario(operator=make_website_operator, actions=WEBSITES.actions),
    "website-upgrades": Scenario(
        operator=make_website_operator, upgraded=make_new_website_operator, actions=WEBSITES.actions
    ),
    "greetings": Scenario(operator=make_greeter, actions=[make_greeting, edit_greeting, delete_greeting]),
    "copies": Scenario(
        operator=make_copier, actions=[make_source, edit_source, delete_source, make_namespace, move_namespace]
    ),
    "applications": Scenario(doubles=fake_dns.make_doubles, actions=APPLICATIONS.actions[:4]),
    "databases": Scenario(doubles=fake_service.make_doubles, actions=[make_database, resize_database, delete_database]),
    "families": Scenario(operator=make_family_operator, actions=FAMILIES.actions),
    "singles": Scenario(operator=make_single_operator, actions=SINGLES.actions),
}
"""The operators of worlds. Each change of an application's DNS from outside would not be in a snapshot."""
