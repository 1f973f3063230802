"""A program without an operator: the API server of the bookshelf sample needs each of its rules, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from rbac_operator import install, rbac_server, service_account

import envtest
from bookshelf.api import Book, BookSpec
from bookshelf.rbac import RULES
from bookshelf.server import make_server
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apiserver.auth.authentication_config import NAME, NAMESPACE, ClientAuthenticationConfig
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.cli.generate.rbac import rbac_yaml
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ApiError
from opsdk.http.asgi_types import Receive, Scope, Send
from opsdk.rbac.manifests import RbacNames
from opsdk.rbac.observed import RuleRecorder
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.rbac.rules import RbacRule
from opsdk.rest.config import RestConfig
from opsdk.testing.rules import assert_rules

NAMES = RbacNames(name="bookshelf")
DECLARED = RuleSet(permission for rule in RULES for permission in rule.permissions())


async def lend(env: envtest.Environment, client: Client, recorder: RuleRecorder) -> None:
    """The server starts with its service account, and a reader with a role of its own adds a book."""

    async def forward(scope: Scope, receive: Receive, send: Send) -> None:
        await server.app(scope, receive, send)

    await env.expose("default/bookshelf", app=forward)  # gives the server in front its proxy certificate
    reader = env.add_user("reader")
    may_create = RuleSet(RbacRule("create", Book).permissions())
    for obj in await install(client, may_create, RbacNames(name="reader")):
        if obj.kind == "ClusterRoleBinding":
            binding = await client.get(type(obj), "reader")
            binding.subjects = [type(binding.subjects[0])(kind="User", name="reader", api_group=obj.gvk.group)]
            await client.update(binding)
    async with Cluster(await service_account(env, client, NAMES), hook=recorder) as front:
        trust = ClientAuthenticationConfig.of((await front.uncached.get(ConfigMap, f"{NAMESPACE}/{NAME}")).data)
        server = make_server(MemoryStorage(), trust, front.uncached)
        async with Cluster(RestConfig(app=server.app, token=reader.token)) as cluster:
            book = Book(metadata=ObjectMeta(name="walden", namespace="default"), spec=BookSpec(title="Walden"))
            await cluster.uncached.create(book)


async def test_the_generated_manifests_suffice() -> None:
    """With exactly the declared permissions a book is added, and every one of them is used."""
    recorder = RuleRecorder()
    async with rbac_server() as (env, client):
        await install(client, DECLARED, NAMES)
        await lend(env, client, recorder)
    assert_rules(recorder, DECLARED, unused=True)
    assert not recorder.forbidden
    assert recorder.rules(DECLARED) == DECLARED


@pytest.mark.parametrize("permission", list(DECLARED), ids=str)
async def test_every_permission_is_needed(permission: Permission) -> None:
    """Without any one of them no book is added."""
    recorder = RuleRecorder()
    async with rbac_server() as (env, client):
        await install(client, RuleSet(DECLARED.permissions - {permission}), NAMES)
        with pytest.raises(ApiError):
            await lend(env, client, recorder)
    assert [permission.covers(request.permission) for request in recorder.forbidden] == [True]


def test_the_manifests_are_what_is_declared() -> None:
    """samples/bookshelf/manifests/rbac.yaml is the output of the command."""
    path = Path(__file__).resolve().parents[2] / "samples/bookshelf/manifests/rbac.yaml"
    assert path.read_text() == rbac_yaml(RULES, NAMES)
