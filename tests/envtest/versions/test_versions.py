"""The version of Kubernetes that a local server serves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from server_caller import Caller

from envtest.data.versions import DEFAULT, VARIABLE, VERSIONS, chosen_version, parse_version
from envtest.environment import Environment
from envtest.fake_binaries.apiserver import PROGRAM
from envtest.instruments.cluster_snapshots import load_cluster_snapshot
from opsdk.api.certificates.v1 import ClusterTrustBundle, ClusterTrustBundleSpec
from opsdk.api.meta.v1 import GroupResource
from opsdk.api.resource.v1beta1 import ResourceClaim
from opsdk.api.storagemigration.v1 import StorageVersionMigration, StorageVersionMigrationSpec
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cluster.cluster import Cluster
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.errors import ConfigError, NoMatchError
from opsdk.structured_merge.value import JsonObject

STABLE_SINCE = {
    "1.36": ("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",),
    "1.37": (
        "/apis/certificates.k8s.io/v1/clustertrustbundles",
        "/apis/certificates.k8s.io/v1/podcertificaterequests",
        "/apis/resource.k8s.io/v1/devicetaintrules",
        "/apis/storagemigration.k8s.io/v1/storageversionmigrations",
    ),
}
"""The first version that serves a kind by default."""
FIELDS: dict[str, JsonObject] = {
    "1.35": {"workloadRef": {"name": "w", "podGroup": "g"}},
    "1.36": {"schedulingGroup": {"podGroupName": "g"}},
    "1.37": {"evictionResponders": [{"name": "example.com/a", "priority": 1}]},
}
"""A field of a pod spec that the version has, and older ones lack."""


@pytest.mark.parametrize(
    ("text", "version"),
    [("1.35", "1.35"), ("v1.36", "1.36"), ("1.37.0", "1.37"), ("v1.36.9-eks-1", "1.36"), (" 1.36 ", "1.36")],
)
def test_texts_of_versions(text: str, version: str) -> None:
    """A version may have a ``v``, a patch and a build."""
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1.34", "Kubernetes 1.34 is older than the versions that envtest serves: give one of 1.35, 1.36, 1.37"),
        ("v1.40.1", "Kubernetes 1.40 is newer than the versions that envtest serves"),
        ("2.0", "Kubernetes 2.0 is newer"),
        ("latest", "'latest' is not a version of Kubernetes: give one of 1.35, 1.36, 1.37"),
        ("", "'' is not a version of Kubernetes"),
        ("1.36.", "'1.36.' is not a version of Kubernetes"),
    ],
)
def test_other_versions_are_refused(text: str, reason: str) -> None:
    """A version that the server cannot serve is refused with the versions that it can serve."""
    with pytest.raises(ConfigError, match=reason):
        Environment(kubernetes=text)


def test_the_variable_chooses_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an option the environment variable decides, and without that the default."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen_version(None) == DEFAULT
    monkeypatch.setenv(VARIABLE, "v1.37")
    assert chosen_version(None) == "1.37"
    assert chosen_version("1.35") == "1.35"
    monkeypatch.setenv(VARIABLE, "1.1")
    with pytest.raises(ConfigError, match=f"{VARIABLE}: Kubernetes 1.1 is older"):
        chosen_version(None)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_is_of_its_version(version: str) -> None:
    """``/version``, discovery and OpenAPI documents are those of the version."""
    async with Environment(kubernetes=version) as env:
        call = Caller(env)
        assert (await call("GET", "/version")).json["gitVersion"] == VERSIONS[version].git_version
        document = (await call("GET", "/openapi/v2")).json
        for since, paths in STABLE_SINCE.items():
            for path in paths:
                served = VERSIONS[version].minor >= VERSIONS[since].minor
                assert (await call("GET", path)).status == (200 if served else 404)
                home, _, name = path.rpartition("/")
                listed = await call("GET", home)
                resources = listed.json["resources"] if listed.status == 200 else ()
                names = [each["name"] for each in resources]
                assert (name in names) == served
                assert (path in document["paths"]) == served
        services = (await call("GET", "/apis/apiregistration.k8s.io/v1/apiservices")).json["items"]
        groups = {each["spec"].get("group", "") for each in services}
        served_groups = {group["name"] for group in (await call("GET", "/apis")).json["groups"]}
        assert groups == {"", *served_groups} - {"apiregistration.k8s.io"}


async def test_servers_of_two_versions_side_by_side() -> None:
    """Each server knows the fields of its own version; a strict request with another field fails."""
    for version, own in FIELDS.items():
        async with Environment(kubernetes=version) as env:
            call = Caller(env)
            for other, fields in FIELDS.items():
                spec = {"containers": [{"name": "c", "image": "i"}], **fields}
                template = {"metadata": {}, "spec": spec}
                body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}, "template": template}
                url = "/api/v1/namespaces/default/podtemplates?dryRun=All&fieldValidation=Strict"
                answer = await call("POST", url, body)
                unknown = other != version and not (other == "1.36" and version == "1.37")
                assert answer.status == (400 if unknown else 201), (version, other, answer.raw)
            assert own


async def test_tables_of_definitions() -> None:
    """From 1.37 on the table of definitions has their group, scope and versions."""
    columns = {}
    for version in ("1.36", "1.37"):
        async with Environment(kubernetes=version) as env:
            url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            table = await Caller(env)("GET", url, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
            columns[version] = [column["name"] for column in table.json["columnDefinitions"]]
    wide = ["Group", "Kind", "ShortNames", "Established"]
    assert columns == {
        "1.36": ["Name", "Created At"],
        "1.37": ["Name", "Scope", "Versions", "Created At", *wide],
    }


async def test_a_fork_has_the_version() -> None:
    """A fork serves the version of its origin."""
    async with Environment(kubernetes="1.37") as env, env.fork() as fork:
        assert fork.kubernetes == env.kubernetes == "1.37"
        assert (await Caller(fork)("GET", STABLE_SINCE["1.37"][0])).status == 200


async def test_unstable_kinds_are_not_served() -> None:
    """As upstream since 1.24. The class is there; the mapper says that the server lacks the kind."""
    async with Environment() as env, Cluster(env.config) as cluster:
        assert (await Caller(env)("GET", "/apis/resource.k8s.io/v1beta1/resourceclaims")).status == 404
        with pytest.raises(NoMatchError):
            await cluster.uncached.list(ResourceClaim, namespace="default")


async def test_nodes_show_the_version() -> None:
    """Simulated nodes have the kubelet of the version."""
    async with Environment(kubernetes="1.35", controllers="kubelet") as env:
        call = Caller(env)
        await call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})

        async def kubelet() -> str:
            node = (await call("GET", "/api/v1/nodes/n")).json
            return str(node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion"))

        await env.eventually(kubelet, lambda version: version == "v1.35.0")


def test_a_data_folder_keeps_its_version(tmp_path: Path) -> None:
    """A folder with the objects of another version is refused and stays as it is."""
    folder = tmp_path / "data"
    Environment(data_dir=folder, kubernetes="1.37").plane.close()
    before = {path.name: path.stat().st_size for path in folder.iterdir()}
    with pytest.raises(ConfigError, match=r"has the objects of Kubernetes 1.37, not of 1.36: serve 1.37, or give"):
        Environment(data_dir=folder)
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == before
    Environment(data_dir=folder, kubernetes="1.37").plane.close()
    (folder / "kubernetes-version").unlink()  # a folder of an older opsdk, which served the default only
    Environment(data_dir=folder).plane.close()


def test_a_snapshot_of_another_version_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """A snapshot of another version is loaded, with one warning; one of the same version without."""
    load_cluster_snapshot(ClusterSnapshot(taken_at="", server_version="v1.36.2"))
    assert not caplog.records
    load_cluster_snapshot(ClusterSnapshot(taken_at="", server_version="v1.35.1"), kubernetes="1.37")
    [record] = caplog.records
    assert record.getMessage().startswith("the snapshot is of Kubernetes 1.35 and this server serves 1.37:")
    assert record.getMessage().endswith("; choose it with --kubernetes 1.35")


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("/k8s/1.37.0-linux-amd64/kube-apiserver", "Kubernetes v1.37.0"),
        ("/bin/kube-apiserver-v1.35", "Kubernetes v1.35.0"),
        ("/bin/kube-apiserver", "Kubernetes v1.36.2"),
        ("/k8s/1.30.0-linux-amd64/kube-apiserver", "Kubernetes 1.30 is older than the versions that envtest serves"),
    ],
)
def test_stand_ins_have_the_version_of_their_name(
    program: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stand-in of kube-apiserver serves the version in the name of the program or of its folder."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("OPSDK_ENVTEST_PROGRAM", program)
    status = PROGRAM.main(["--version"])
    shown = capsys.readouterr()
    assert line in shown.out + shown.err
    assert status == (0 if line in shown.out else 1)


@pytest.mark.slow
def test_tables_of_other_versions_are_not_read() -> None:
    """A server of the default version opens no table of another version."""
    script = """
import asyncio, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from envtest.environment import Environment
async def main():
    async with Environment():
        pass
asyncio.run(main())
assert any("envtest/data/schemas.txt" in path for path in opened), "the hook sees tables"
print([path for path in opened if "/data/v1." in path])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


async def test_typed_kinds_of_a_newer_version() -> None:
    """The classes of kinds that 1.37 adds work with its server; a server of 1.36 lacks them."""
    resource = GroupResource(group="apps", resource="deployments")
    migration = StorageVersionMigration(
        metadata=ObjectMeta(name="a"), spec=StorageVersionMigrationSpec(resource=resource)
    )
    async with Environment(kubernetes="1.37") as env, Cluster(env.config) as cluster:
        client, certificate = cluster.uncached, env.authority.pair.cert.decode()
        bundle = ClusterTrustBundle(
            metadata=ObjectMeta(name="a"), spec=ClusterTrustBundleSpec(trust_bundle=certificate)
        )
        await client.create(bundle)
        assert (await client.get(ClusterTrustBundle, "a")).spec.trust_bundle == certificate
        await client.create(migration)
        [stored] = await client.list(StorageVersionMigration)
        assert stored.spec.resource == resource
    async with Environment() as env, Cluster(env.config) as cluster:
        with pytest.raises(NoMatchError):
            await cluster.uncached.create(bundle)
