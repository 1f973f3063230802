"""The packages of a project: complete, restricted, and the same objects in every form."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from envtest import Environment
from opsdk import Client, Unstructured
from opsdk.api.core.v1 import Pod
from opsdk.cli.__main__ import main
from opsdk.cli.package.deployment import Workload, metrics_service, service_monitor, webhook_service
from opsdk.errors import NoMatchError, UsageError
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.eventually import eventually
from tests.cli.helm_templates import render

SETTINGS = """
[tool.opsdk.env]
REGION = "eu: 'west'"
TOKEN = {secretKeyRef = {name = "api", key = "token"}}

[tool.opsdk.resources]
requests = {cpu = "20m", memory = "64Mi"}
limits = {memory = "128Mi"}

[tool.opsdk.pod]
imagePullSecrets = ["registry"]
nodeSelector = {"kubernetes.io/os" = "linux"}
priorityClassName = "system-cluster-critical"
tolerations = [{key = "node-role.kubernetes.io/control-plane", operator = "Exists"}]
topologySpreadConstraints = [{maxSkew = 1, topologyKey = "zone", whenUnsatisfiable = "DoNotSchedule"}]
affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution = []
"""


def rendered_chart(chart: Path, **values: object) -> list[JsonObject]:
    """Return the objects that ``helm template`` prints, but the ServiceMonitor unless it is enabled."""
    everything = {**documents(chart / "values.yaml")[0], **values}
    texts = [
        render(path.read_text(), everything, "packaged-system") for path in sorted((chart / "templates").iterdir())
    ]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Everything that ``opsdk package`` writes for a new project."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "packaged"]) == 0
    monkeypatch.chdir(tmp_path / "packaged")
    monkeypatch.syspath_prepend(str(tmp_path / "packaged"))
    assert main(["create", "api", "--group", "demo.example.com", "--kind", "Widget"]) == 0
    with Path("pyproject.toml").open("a") as pyproject:
        pyproject.write(SETTINGS)
    assert main(["package"]) == 0
    yield tmp_path / "packaged/dist"
    forget_modules()


def forget_modules() -> None:
    """Import the project anew next time."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "packaged"]:
        del sys.modules[name]


def documents(*paths: Path) -> list[JsonObject]:
    """Return all objects of YAML files."""
    return [document for path in paths for document in yaml.safe_load_all(path.read_text()) if document]


def names(objects: list[JsonObject]) -> list[tuple[str, str]]:
    """Return kinds and names, sorted."""
    return sorted((obj["kind"], obj["metadata"]["name"]) for obj in objects)


def test_every_form_has_the_same_objects(packages: Path) -> None:
    """The YAML file, the kustomize folder and the rendered chart have the same objects."""
    resources = documents(packages / "kustomize/kustomization.yaml")[0]["resources"]
    folder = documents(*(packages / "kustomize" / path for path in resources))
    assert names(documents(packages / "install.yaml")) == names(folder)
    rendered = rendered_chart(packages / "chart")
    for definition in (obj for obj in rendered if obj["kind"] == "CustomResourceDefinition"):
        assert definition["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    key = str
    assert sorted(rendered, key=key) == sorted((o for o in folder if o["kind"] != "Namespace"), key=key)
    (deployment,) = [obj for obj in rendered if obj["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [
        {"name": "REGION", "value": "eu: 'west'"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "api", "key": "token"}}},
    ]
    assert container["resources"] == {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}


def test_the_bundle_has_the_permissions_and_the_deployment(packages: Path) -> None:
    """The ClusterServiceVersion owns the definitions, and grants what the roles grant."""
    (csv,) = documents(*(packages / "bundle/manifests").glob("*.clusterserviceversion.yaml"))
    installed = documents(packages / "install.yaml")
    by_kind = {obj["kind"]: obj for obj in installed if obj["metadata"]["name"] == "packaged"}
    install = csv["spec"]["install"]["spec"]
    assert install["clusterPermissions"][0]["rules"] == by_kind["ClusterRole"]["rules"]
    assert install["permissions"][0]["rules"] == by_kind["Role"]["rules"]
    assert install["deployments"][0]["spec"] == by_kind["Deployment"]["spec"]
    owned = csv["spec"]["customresourcedefinitions"]["owned"]
    assert owned == [{"name": "widgets.demo.example.com", "kind": "Widget", "version": "v1"}]


@pytest.mark.parametrize("webhooks", [False, True])
def test_a_service_monitor_verifies_what_has_a_ca(*, webhooks: bool) -> None:
    """Metrics of an operator with webhooks have a certificate of its CA; without, each pod signs its own."""
    workload = Workload(name="shop", namespace="shop-system", image="i", package="shop", webhooks=webhooks)
    (endpoint,) = service_monitor(workload)["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == (
        {"ca": {"secret": {"name": "shop-webhooks-tls", "key": "ca.crt"}}, "serverName": "shop-webhooks"}
        if webhooks
        else {"insecureSkipVerify": True}
    )
    # The webhooks have no metrics, so their Service has no port of this name.
    ports = [webhook_service(workload), metrics_service(workload)]
    assert [service["spec"]["ports"][0]["name"] == endpoint["port"] for service in ports] == [False, True]


@pytest.mark.k8s(controllers="cluster")
async def test_a_cluster_accepts_the_whole_file(packages: Path, k8s_env: Environment, k8s_client: Client) -> None:
    """A cluster accepts the file in its order; its pods pass the restricted pod security standard."""
    for document in documents(packages / "install.yaml"):
        obj = Unstructured.from_tree(document)

        async def create(obj: Any = obj) -> bool:
            try:
                await k8s_client.create(obj, field_validation="Strict")
            except NoMatchError:
                return False
            return True

        await eventually(create)

    async def pods() -> bool:
        return len(await k8s_client.list(Pod, namespace="packaged-system")) == 2

    await eventually(pods)


def test_the_container_runs_the_package_without_root(packages: Path) -> None:
    """The container runs the package as the user that the Deployment names, without root."""
    lines = (packages / "Containerfile").read_text().splitlines()
    assert lines[-2:] == ["USER 65532:65532", 'ENTRYPOINT ["/venv/bin/python", "-m", "packaged"]']
    (deployment,) = [o for o in documents(packages / "install.yaml") if o["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 65532


def test_the_kubeconfig_of_dev_does_not_enter_the_build(packages: Path) -> None:
    """Both ignore files list ``.opsdk``, which has a kubeconfig; an existing ignore file is kept."""
    own = packages.parent / ".dockerignore"
    for path in (own, packages / "Containerfile.dockerignore"):
        assert {".opsdk", "**/kubeconfig", ".git"} <= set(path.read_text().splitlines())
    own.write_text("mine\n")
    assert main(["package"]) == 0
    assert own.read_text() == "mine\n"


def test_the_base_image_can_be_pinned(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both stages use ``--base-image``; a text that is not an image name is an error."""
    pinned = f"registry.example.com/python@sha256:{'0' * 64}"
    assert main(["package", "--base-image", pinned]) == 0
    lines = (packages / "Containerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("FROM ")] == [f"FROM {pinned} AS build", f"FROM {pinned}"]
    for wrong in ("python 3", "a\nRUN true", ""):
        assert main(["package", "--base-image", wrong]) == 1
        assert "write NAME:TAG or NAME@sha256:DIGEST" in capsys.readouterr().err


def test_a_lock_file_is_installed_with_hashes(packages: Path) -> None:
    """Without requirements.lock, the Containerfile has the command that writes one."""
    assert (
        "uv pip compile --generate-hashes pyproject.toml -o requirements.lock"
        in (packages / "Containerfile").read_text()
    )
    (packages.parent / "requirements.lock").write_text("")
    assert main(["package"]) == 0
    text = (packages / "Containerfile").read_text()
    assert "--require-hashes -r requirements.lock" in text
    assert "--no-deps ." in text


def test_metrics_are_open_to_labelled_namespaces_only(packages: Path) -> None:
    """The port of the webhooks is open to the API server, which a selector cannot name."""
    (policy,) = [o for o in documents(packages / "install.yaml") if o["kind"] == "NetworkPolicy"]
    rules = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["spec"]["ingress"]}
    assert rules[8443] == [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}]
    assert rules.get(9443) is None


def test_an_edited_file_is_kept(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run overwrites unedited files; one edited file stops the run until ``--force``."""
    assert main(["package"]) == 0
    path = packages / "install.yaml"
    path.write_text(path.read_text() + "# mine\n")
    before = (packages / "Containerfile").stat().st_mtime_ns
    capsys.readouterr()
    assert main(["package"]) == 1
    output = capsys.readouterr()
    assert "install.yaml was edited" in output.err
    assert output.out == ""
    assert (packages / "Containerfile").stat().st_mtime_ns == before
    assert main(["package", "--force"]) == 0


@pytest.mark.parametrize("field", ["name", "namespace", "image", "package"])
def test_what_is_missing_is_named(field: str) -> None:
    """The error says where to write it."""
    values = {"name": "a", "namespace": "b", "image": "c", "package": "d", field: ""}
    with pytest.raises(UsageError, match=rf"need {field}: write it under \[tool\.opsdk\]"):
        Workload(**values)


def test_the_check_shows_what_a_declaration_changed(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check passes on written files, and names file and line of a later difference."""
    assert main(["generate", "manifests"]) == 0
    assert main(["generate", "manifests", "--check"]) == 0
    capsys.readouterr()
    assert main(["generate", "manifests", "--check", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    role = Path("config/rbac.yaml")
    text = role.read_text()
    role.write_text(text.replace("- configmaps", "- secrets"))
    capsys.readouterr()
    assert main(["generate", "manifests", "--check"]) == 1
    output = capsys.readouterr().err
    assert "config/rbac.yaml is out of date" in output
    assert "+  - configmaps" in output
    assert main(["generate", "manifests", "--check", "--output", "json"]) == 1
    (difference,) = json.loads(capsys.readouterr().out)
    assert difference["path"] == "config/rbac.yaml"
    assert "+  - configmaps" in difference["diff"]
    role.unlink()
    assert main(["generate", "manifests", "--check"]) == 1
    assert "config/rbac.yaml cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["manifests", "all"])
def test_manifests_for_an_older_server(command: str, packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A definition that the server would not accept is named with the reason, and nothing is written."""
    assert main(["generate", command, "--for", "1.31"]) == 0
    path = next(path for path in Path("packaged").rglob("*.py") if "    gvk = " in path.read_text())
    path.write_text(path.read_text().replace("    gvk = ", '    selectable_fields = (".spec.text",)\n    gvk = '))
    forget_modules()
    before = {path: path.read_bytes() for path in Path("config").rglob("*") if path.is_file()}
    assert main(["generate", command, "--for", "1.30"]) == 1
    assert "v1.selectableFields: servers know this field since Kubernetes 1.31" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in Path("config").rglob("*") if path.is_file()}


def test_the_roles_of_the_deploying_user_are_printed(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``opsdk deploy --print-role`` needs no cluster; each object of the installation has its rule by name."""
    capsys.readouterr()
    assert main(["deploy", "--print-role", "--namespace", "elsewhere"]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [obj["kind"] for obj in printed[:2]] == ["Namespace", "ServiceAccount"]
    resource_names = {
        name for obj in printed for rule in obj.get("rules", ()) for name in rule.get("resourceNames", ())
    }
    assert resource_names == {obj["metadata"]["name"] for obj in documents(packages / "install.yaml")} - {
        "packaged-system"
    } | {"elsewhere"}
    assert {obj["metadata"]["namespace"] for obj in printed if obj["kind"] == "Role"} == {"elsewhere"}
