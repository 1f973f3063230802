"""The kinds that the newest version of Kubernetes adds, with the clients that know them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import lightkube
import pytest
from kubernetes import client, config
from kubernetes.client.rest import ApiException
from lightkube.models.certificates_v1 import ClusterTrustBundleSpec
from lightkube.models.meta_v1 import GroupResource, ObjectMeta
from lightkube.models.resource_v1 import DeviceTaint, DeviceTaintRuleSpec, DeviceTaintSelector
from lightkube.models.storagemigration_v1 import StorageVersionMigrationSpec
from lightkube.resources.certificates_v1 import ClusterTrustBundle
from lightkube.resources.resource_v1 import DeviceTaintRule
from lightkube.resources.storagemigration_v1 import StorageVersionMigration

from opsdk.structured_merge.value import JsonObject

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]
MIGRATION: JsonObject = {"resource": {"group": "apps", "resource": "deployments"}}
ADDED = datetime(2026, 1, 2, tzinfo=UTC)
RULE: JsonObject = {
    "deviceSelector": {"driver": "d.example.com"},
    "taint": {"key": "k", "effect": "NoSchedule", "timeAdded": ADDED.isoformat()},
}


class Calls(NamedTuple):
    """The functions of the official client for a kind of the cluster."""

    create: Callable[..., Any]
    read: Callable[..., Any]
    patch: Callable[..., Any]
    list: Callable[..., Any]
    delete: Callable[..., Any]

    @classmethod
    def of(cls, api: Any, kind: str) -> Calls:
        """Find them by the name of the kind."""
        return cls(*(getattr(api, f"{verb}_{kind}") for verb in cls._fields))


@pytest.fixture
def authority(newest: Any) -> str:
    """A certificate for trust bundles."""
    text: str = newest.call(lambda env: env.authority.pair.cert.decode())
    return text


def calls(api: client.ApiClient) -> dict[str, Calls]:
    """The kinds, by their names in the client."""
    return {
        "cluster_trust_bundle": Calls.of(client.CertificatesV1Api(api), "cluster_trust_bundle"),
        "device_taint_rule": Calls.of(client.ResourceV1Api(api), "device_taint_rule"),
        "storage_version_migration": Calls.of(client.StoragemigrationV1Api(api), "storage_version_migration"),
    }


@pytest.mark.parametrize("kind", ["cluster_trust_bundle", "device_taint_rule", "storage_version_migration"])
def test_the_official_client_writes_and_reads_new_kinds(newest: Any, authority: str, kind: str) -> None:
    """Each verb, with the classes of the client."""
    specs = {
        "cluster_trust_bundle": {"trustBundle": authority},
        "device_taint_rule": RULE,
        "storage_version_migration": MIGRATION,
    }
    name = f"official-{kind.replace('_', '-')}"
    with config.new_client_from_config(str(newest.kubeconfig)) as api:
        assert client.VersionApi(api).get_code().minor == "37"
        verbs = calls(api)[kind]
        verbs.create({"metadata": {"name": name}, "spec": specs[kind]})
        read = verbs.read(name)
        assert api.sanitize_for_serialization(read.spec) == specs[kind]
        assert verbs.patch(name, {"metadata": {"labels": {"a": "b"}}}).metadata.labels == {"a": "b"}
        assert name in [each.metadata.name for each in verbs.list(label_selector="a=b").items]
        verbs.delete(name)
        with pytest.raises(ApiException) as refused:
            verbs.read(name)
        assert refused.value.status == 404


def test_lightkube_writes_and_reads_new_kinds(newest: Any, authority: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its models of the same version."""
    monkeypatch.setenv("KUBECONFIG", str(newest.kubeconfig))
    lk = lightkube.Client()
    metadata = ObjectMeta(name="lightkube")
    selector, taint = (
        DeviceTaintSelector(driver="d.example.com"),
        DeviceTaint(key="k", effect="NoSchedule", timeAdded=ADDED),
    )
    for each in (
        ClusterTrustBundle(metadata=metadata, spec=ClusterTrustBundleSpec(trustBundle=authority)),
        DeviceTaintRule(metadata=metadata, spec=DeviceTaintRuleSpec(deviceSelector=selector, taint=taint)),
        StorageVersionMigration(
            metadata=metadata,
            spec=StorageVersionMigrationSpec(resource=GroupResource(group="apps", resource="deployments")),
        ),
    ):
        lk.create(each)
        assert lk.get(type(each), "lightkube").spec == each.spec
        assert [item.metadata.name for item in lk.list(type(each)) if item.metadata] == ["lightkube"]
        lk.delete(type(each), "lightkube")


def test_an_older_server_lacks_the_new_kinds(served: Any, newest: Any, kubeconfig: str) -> None:
    """The default version answers as a server that has never heard of them."""
    if served.kubernetes == newest.kubernetes:
        pytest.skip("OPSDK_KUBERNETES_VERSION chooses the newest version")
    with config.new_client_from_config(kubeconfig) as api:
        for verbs in calls(api).values():
            with pytest.raises(ApiException) as refused:
                verbs.list()
            assert refused.value.status == 404
