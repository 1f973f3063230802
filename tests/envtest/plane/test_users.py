"""Users of an environment, their recorded requests, and trusted proxies."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import httpx
import pytest
import yaml
from server_caller import Caller

from envtest.environment import Environment
from opsdk import Cluster
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apiserver.auth.user import User
from opsdk.errors import ForbiddenError

RBAC = "/apis/rbac.authorization.k8s.io/v1"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def test_a_user_may_what_roles_say() -> None:
    """A new user has only basic permissions; in the group ``system:masters``, all of them."""
    async with Environment() as env:
        async with Cluster(env.add_user("bob").config) as bob:
            with pytest.raises(ForbiddenError, match='User "bob" cannot list resource "namespaces"'):
                await bob.uncached.list(Namespace)
        async with Cluster(env.add_user("boss", groups=["system:masters"]).config) as boss:
            assert await boss.uncached.list(Namespace)


async def test_the_report_names_what_was_done() -> None:
    """The reported manifests suffice for the same run; if one rule is missing, the error names its verb."""
    async with Environment() as env:
        boss = env.add_user("worker", groups=["system:masters"])
        async with Cluster(boss.config) as cluster:
            await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
            await cluster.uncached.list(Namespace)
        used = env.observed_rbac().of("worker")
        role = used.role("worker", "default")
        assert role["rules"] == [{"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"]}]
        assert "list namespaces" in [str(u) for u in used.exceeds(role["rules"])]
        admin = Caller(env)
        for obj in used.manifests("worker"):
            meta = obj["metadata"]
            place = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
            response = await admin("POST", f"{RBAC}{place}/{obj['kind'].lower()}s", obj)
            assert response.status == 201, response.json
        async with Cluster(env.add_user(User(name="worker")).config) as cluster:
            await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="b", namespace="default")))
            assert await cluster.uncached.list(Namespace)
            with pytest.raises(ForbiddenError):
                await cluster.uncached.list(ConfigMap, namespace="default")
        assert [str(u) for u in env.observed_rbac().of("worker").denied] == ["list configmaps in default"]


async def test_the_audit_log_names_users_and_requests() -> None:
    """The audit log has each request once, with outcome and impersonated user; the oldest are dropped first."""
    async with Environment() as env:
        admin = Caller(env)
        await admin("POST", WHOAMI, {}, impersonate_user="bob")
        await admin("GET", "/api/v1/namespaces/default/pods/none?x=y")
        await Caller(env, "wrong")("GET", "/api")
        one, two, three = env.audit
        assert (one.user.name, one.effective.name, one.verb, one.code) == ("admin", "bob", "create", 201)
        assert env.audit.select(resource="pods", code=404) == [two]
        assert (three.code, three.verb) == (401, "get")
        event = two.event()
        assert event["objectRef"] == {"resource": "pods", "namespace": "default", "name": "none", "apiVersion": "v1"}
        assert event["requestURI"] == "/api/v1/namespaces/default/pods/none?x=y"
        assert (event["user"]["username"], event["responseStatus"]["code"]) == ("admin", 404)
        assert one.event()["impersonatedUser"]["username"] == "bob"
        for _ in range(1100):
            await admin("GET", "/healthz")
        assert (len(env.audit), env.audit.count) == (1000, 1103)


async def test_others_can_check_the_tokens_of_service_accounts() -> None:
    """The discovery document leads to the signing keys, which service accounts can read but anonymous users cannot."""
    async with Environment() as env:
        admin = Caller(env)
        response = await admin("GET", "/.well-known/openid-configuration", host="h:1")
        assert response.headers["cache-control"] == "public, max-age=3600"
        assert response.json["jwks_uri"] == "http://h:1/openid/v1/jwks"
        keys = await admin("GET", "/openid/v1/jwks")
        assert keys.headers["content-type"] == "application/jwk-set+json"
        assert keys.json["keys"][0]["alg"] == "RS256"
        assert (await Caller(env, "")("GET", "/openid/v1/jwks")).status == 403
        account = "system:serviceaccount:a:b"
        assert (await admin("GET", "/openid/v1/jwks", impersonate_user=account)).status == 200
        assert (await admin("POST", "/openid/v1/jwks")).status == 405


def context_for(env: Environment, directory: Path, name: str, *, proxy: bool) -> ssl.SSLContext:
    """TLS with a client certificate of one of the authorities."""
    pair = (env.proxies if proxy else env.authority).client(name, ("system:masters",))
    cert, key = pair.write(directory, f"{name}-{proxy}")
    context = ssl.create_default_context(cadata=env.authority.pair.cert.decode())
    context.load_cert_chain(cert, key)
    return context


@pytest.mark.realtime
async def test_proxies_are_believed_by_their_certificates(tmp_path: Path) -> None:
    """X-Remote-User is trusted only with a certificate of the proxies' CA and an allowed name."""
    headers = [("X-Remote-User", "bob"), ("X-Remote-Group", "a"), ("X-Remote-Group", "b"), ("X-Remote-Extra-K", "v")]
    outcomes = {}
    async with Environment() as env:
        web = await env.serve()
        for name, proxy in (("front-proxy-client", True), ("other", True), ("front-proxy-client", False)):
            context = context_for(env, tmp_path, name, proxy=proxy)
            async with httpx.AsyncClient(verify=context, base_url=web.url) as client:
                answer = await client.post(WHOAMI, json={}, headers=headers)
                outcomes[name, proxy] = answer.json()
        trust = await Caller(env)("GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
        assert trust.json["data"]["client-ca-file"] == env.authority.pair.cert.decode()
        assert json.loads(trust.json["data"]["requestheader-allowed-names"]) == ["front-proxy-client"]
    assert outcomes["front-proxy-client", True]["status"]["userInfo"] == {
        "username": "bob",
        "groups": ["a", "b", "system:authenticated"],
        "extra": {"k": ["v"]},
    }
    assert outcomes["other", True]["code"] == 401
    own_user = outcomes["front-proxy-client", False]["status"]["userInfo"]
    assert (own_user["username"], own_user["groups"]) == (
        "front-proxy-client",
        ["system:masters", "system:authenticated"],
    )
    assert own_user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


@pytest.mark.realtime
async def test_users_authenticate_by_certificate_or_token(tmp_path: Path) -> None:
    """A user authenticates by certificate over TLS and by token without; the kubeconfig has the same credentials."""
    async with Environment() as env:
        bob = env.add_user("bob", groups=["devs"])
        for tls in (True, False):
            web = await env.serve(tls=tls)
            async with Cluster(bob.served(web)) as cluster:
                with pytest.raises(ForbiddenError, match='User "bob"'):
                    await cluster.uncached.list(Namespace)
            user = yaml.safe_load(bob.kubeconfig(web))["users"][0]["user"]
            assert ("client-certificate-data" in user) == tls
            assert ("token" in user) != tls
