"""The kinds that Kubernetes 1.37 adds, as their sources describe them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

CERTIFICATES = "/apis/certificates.k8s.io/v1"
BUNDLES = f"{CERTIFICATES}/clustertrustbundles"
REQUESTS = f"{CERTIFICATES}/namespaces/default/podcertificaterequests"
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
MIGRATIONS = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    """A server of 1.37."""
    async with Environment(kubernetes="1.37") as environment:
        yield environment


def bundle(name: str, text: str, signer: str = "") -> JsonObject:
    """A ClusterTrustBundle."""
    spec = {"trustBundle": text, **({"signerName": signer} if signer else {})}
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "ClusterTrustBundle",
        "metadata": {"name": name},
        "spec": spec,
    }


def migration(**resource: str) -> JsonObject:
    """A StorageVersionMigration."""
    return {
        "apiVersion": "storagemigration.k8s.io/v1",
        "kind": "StorageVersionMigration",
        "metadata": {"name": "m"},
        "spec": {"resource": resource},
    }


async def test_names_of_trust_bundles(env: Environment) -> None:
    """A bundle of a signer has the signer's name as its prefix, and another one has no colon."""
    call, authority = Caller(env), env.authority.pair.cert.decode()
    for name, signer, status in (
        ("plain", "", 201),
        ("example.com:foo:v1", "example.com/foo", 201),
        ("example.com:foo:v1", "", 422),
        ("other.com:foo:v1", "example.com/foo", 422),
        ("example.com:foo:Bad_Name", "example.com/foo", 422),
    ):
        answer = await call("POST", f"{BUNDLES}?dryRun=All", bundle(name, authority, signer))
        assert answer.status == status, answer.raw
    await call("POST", BUNDLES, bundle("example.com:foo:v1", authority, "example.com/foo"))
    chosen = await call("GET", f"{BUNDLES}?fieldSelector=spec.signerName%3Dexample.com/foo")
    assert [each["metadata"]["name"] for each in chosen.json["items"]] == ["example.com:foo:v1"]
    changed = {"spec": {"signerName": "example.com/bar"}}
    answer = await call("PATCH", f"{BUNDLES}/example.com:foo:v1", changed, content_type=MERGE)
    assert "field is immutable" in answer.json["message"]


async def test_certificates_of_trust_bundles(env: Environment) -> None:
    """A bundle has distinct certificates of authorities."""
    call, authority = Caller(env), env.authority.pair.cert.decode()
    leaf = env.authority.serving("127.0.0.1").cert.decode()
    for text, reason in (
        ("", "must contain at least one CERTIFICATE PEM block"),
        (authority + authority, "trust bundle contains duplicate certificates"),
        (leaf.partition("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n", "CA bit must be set"),
    ):
        answer = await call("POST", BUNDLES, bundle("a", text))
        assert answer.status == 422
        assert reason in answer.json["message"]


async def test_pod_certificate_requests(env: Environment) -> None:
    """A request has a default lifetime, and its spec is immutable; its status has a resource of its own."""
    call = Caller(env)
    names = ("podName", "podUID", "serviceAccountName", "serviceAccountUID", "nodeName", "nodeUID")
    spec = {"signerName": "example.com/foo", "stubPKCS10Request": "YWJj", **dict.fromkeys(names, "a")}
    head = {"apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest", "metadata": {"name": "r"}}
    answer = await call("POST", REQUESTS, {**head, "spec": {}})
    causes = {cause["field"] for cause in answer.json["details"]["causes"]}
    assert causes == {f"spec.{key}" for key in spec}
    short = await call("POST", REQUESTS, {**head, "spec": {**spec, "maxExpirationSeconds": 60}})
    assert "must be between 3600 and 7862400" in short.json["message"]
    created = await call("POST", REQUESTS, {**head, "spec": spec, "status": {"certificateChain": "x"}})
    assert created.json["spec"]["maxExpirationSeconds"] == 86_400
    assert "certificateChain" not in created.json.get("status", {})
    changed = await call("PATCH", f"{REQUESTS}/r", {"spec": {"podName": "b"}}, content_type=MERGE)
    assert "field is immutable" in changed.json["message"]
    signed = {"status": {"certificateChain": "chain"}}
    answer = await call("PATCH", f"{REQUESTS}/r/status", signed, content_type=MERGE)
    assert answer.json["status"]["certificateChain"] == "chain"


async def test_device_taint_rules(env: Environment) -> None:
    """A rule counts generations and records when its taint was added; an update needs a resource version."""
    call = Caller(env)
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    body: JsonObject = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"driver": "example.com"}, "taint": taint},
    }
    wrong = {**body, "spec": {"deviceSelector": {"device": "Not/Ok"}, "taint": {"key": "", "effect": "Odd"}}}
    answer = await call("POST", RULES, wrong)
    fields = {cause["field"] for cause in answer.json["details"]["causes"]}
    assert fields == {"spec.deviceSelector.device", "spec.taint.key", "spec.taint.effect"}
    created = (await call("POST", RULES, body)).json
    assert created["metadata"]["generation"] == 1
    assert created["spec"]["taint"]["timeAdded"] == created["metadata"]["creationTimestamp"]
    changed = await call("PATCH", f"{RULES}/r", {"spec": {"taint": {"effect": "NoExecute"}}}, content_type=MERGE)
    assert changed.json["metadata"]["generation"] == 2
    assert (await call("PUT", f"{RULES}/r", body)).status == 422  # without a resource version


async def test_storage_version_migrations(env: Environment) -> None:
    """A migration names a resource that stays, and its outcome stays."""
    call = Caller(env)
    answer = await call("POST", MIGRATIONS, migration(group="apps"))
    assert "spec.resource.resource: Required value: resource is required" in answer.json["message"]
    await call("POST", MIGRATIONS, migration(group="apps", resource="deployments"))
    answer = await call("PATCH", f"{MIGRATIONS}/m", {"spec": {"resource": {"group": "batch"}}}, content_type=MERGE)
    assert 'group: Invalid value: "batch": field is immutable' in answer.json["message"]

    async def conditions(**statuses: str) -> JsonObject:
        listed = [
            {"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind, status in statuses.items()
        ]
        body = {"status": {"conditions": listed, "resourceVersion": "7"}}
        answer: JsonObject = (await call("PATCH", f"{MIGRATIONS}/m/status", body, content_type=MERGE)).json
        return answer

    assert "Both success and failed" in (await conditions(Succeeded="True", Failed="True"))["message"]
    assert (await conditions(Succeeded="True"))["status"]["resourceVersion"] == "7"
    assert "cannot be set to false once it is true" in (await conditions(Succeeded="False"))["message"]
    changed = {"status": {"resourceVersion": "8"}}
    answer = await call("PATCH", f"{MIGRATIONS}/m/status", changed, content_type=MERGE)
    assert "status.resourceVersion" in answer.json["message"]
