"""Laws of `opsdk.rest.config`, `opsdk.rest.in_cluster` and the order of loading."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from opsdk.errors import ConfigError
from opsdk.rest import in_cluster
from opsdk.rest.config import ExecConfig, Impersonate, RestConfig, default_user_agent, parse_host
from opsdk.rest.in_cluster import in_cluster_config
from opsdk.rest.load import load_config
from opsdk.structured_merge.value import JsonObject


@pytest.mark.parametrize(
    ("host", "tls", "text", "authority"),
    [
        ("https://10.0.0.1:6443", False, "https://10.0.0.1:6443", "10.0.0.1:6443"),
        ("10.0.0.1:6443", True, "https://10.0.0.1:6443", "10.0.0.1:6443"),
        ("localhost:8080", False, "http://localhost:8080", "localhost:8080"),
        ("https://[::1]:6443/", False, "https://[::1]:6443", "[::1]:6443"),
        (
            "https://rancher.example/k8s/clusters/c1/",
            False,
            "https://rancher.example/k8s/clusters/c1",
            "rancher.example",
        ),
        ("http://x:80", False, "http://x", "x"),
    ],
)
def test_host_table(host: str, tls: bool, text: str, authority: str) -> None:
    """A host is read with or without scheme, port and base path."""
    endpoint = parse_host(host, tls=tls)
    assert (str(endpoint), endpoint.authority) == (text, authority)


@pytest.mark.parametrize("host", ["", "ftp://x", "https://", "https://x:port", "https://x/?q=1", "https://u:p@x"])
def test_unusable_hosts_are_named(host: str) -> None:
    """A host that is not a plain http(s) address is a configuration error which hides the password in it."""
    with pytest.raises(ConfigError) as caught:
        parse_host(host, tls=False)
    assert "u:p" not in str(caught.value)


SECRETS: JsonObject = {
    "token": "s3cret-token",
    "client_key_data": b"s3cret-key",
    "client_cert_data": b"cert",
    "proxy_url": "http://me:s3cret-proxy@proxy:3128",
    "exec": ExecConfig(command="aws", args=["--key", "s3cret-arg"], env={"K": "s3cret-env"}),
}


def test_repr_shows_no_secret() -> None:
    """The repr and str of a configuration name the secrets that are set, without their values."""
    config = RestConfig(host="https://x", **SECRETS)
    basic = RestConfig(host="https://x", username="me", password="s3cret-password")
    for text in (repr(config), str(config), repr(basic), f"{config.exec!r}"):
        assert "s3cret" not in text
    assert "aws" in repr(config)
    assert "client_cert_data=<4 bytes>" in repr(config)


@pytest.mark.parametrize(
    "settings",
    [
        {"username": "u", "token": "t"},
        {"username": "u", "exec": ExecConfig(command="x")},
        {"insecure_skip_tls_verify": True, "ca_data": b"x"},
        {"client_cert_data": b"x"},
        {"client_key_file": "x"},
        {"impersonate": Impersonate(groups=["g"])},
        {"qps": 0.0},
        {"qps": 1.0, "burst": 0},
    ],
)
def test_contradictions_are_refused(settings: JsonObject) -> None:
    """Settings that cannot be meant together are refused when they are written down."""
    with pytest.raises(ConfigError, match="configuration for"):
        RestConfig(host="https://x", **settings)


def test_impersonation_headers() -> None:
    """Groups and extra values repeat their header, and keys are escaped as the server unescapes them."""
    who = Impersonate(user="jane", uid="7", groups=["a", "b"], extra={"acme.com/x%": ["1", "2"]})
    assert who.headers() == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-acme.com%2Fx%25", "1"),
        ("Impersonate-Extra-acme.com%2Fx%25", "2"),
    ]


def test_user_agent_starts_with_the_program() -> None:
    """The text before the slash, the server's default field manager, is the program's name."""
    program, _, rest = default_user_agent().partition("/")
    assert program
    assert " opsdk/" in rest
    assert rest.endswith(")")


# ------------------------------------------------------------------ in a pod
def _pod(root: Path, **files: str) -> Path:
    for name, text in files.items():
        (root / name.replace("_", ".")).write_text(text)
    return root


@pytest.mark.parametrize(
    ("address", "host"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_in_cluster(tmp_path: Path, address: str, host: str) -> None:
    """The service account gives address, CA, token and namespace; an IPv6 address gets brackets."""
    root = _pod(tmp_path, token="abc\n", ca_crt="PEM", namespace="shop")
    config = in_cluster_config(env={"KUBERNETES_SERVICE_HOST": address, "KUBERNETES_SERVICE_PORT": "443"}, root=root)
    assert config is not None
    assert (config.host, config.token, config.namespace) == (host, "abc", "shop")
    assert (config.token_file, config.ca_file) == (str(root / "token"), str(root / "ca.crt"))


def test_outside_a_pod_is_none(tmp_path: Path) -> None:
    """Without the variables of the service, the in-cluster configuration is not used."""
    assert in_cluster_config(env={}, root=tmp_path) is None


def test_the_error_for_a_pod_without_token_says_what_to_do(tmp_path: Path) -> None:
    """A pod whose token is not mounted learns which setting mounts it."""
    env = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        in_cluster_config(env=env, root=tmp_path)


# ------------------------------------------------------------------ precedence
def _kubeconfig(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All four places hold a configuration."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(_kubeconfig(tmp_path / "listed", "listed")))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "pod")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    _kubeconfig(tmp_path / "argument", "argument")
    _kubeconfig(tmp_path / ".kube/config", "home")
    root = tmp_path / "account"
    root.mkdir()
    _pod(root, token="t")
    monkeypatch.setattr(in_cluster.in_cluster_config, "__kwdefaults__", {"env": None, "root": root})
    return tmp_path


@pytest.mark.behaviour(145)
def test_the_argument_wins_over_kubeconfig_pod_and_home(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The argument wins over $KUBECONFIG, that over the pod, and that over the home directory."""
    assert load_config(kubeconfig=places / "argument").host == "https://argument"
    assert load_config().host == "https://listed"
    monkeypatch.delenv("KUBECONFIG")
    assert load_config().host == "https://pod:443"
    assert load_config(context="home").host == "https://home"
    (places / "account/token").unlink()
    assert load_config().host == "https://home"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert load_config().host == "https://home"


def test_the_error_without_configuration_lists_the_searched_places(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no configuration anywhere the message lists the places."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name)
    (places / ".kube/config").unlink()
    with pytest.raises(ConfigError, match=r"KUBECONFIG.*not in a pod.*\.kube/config"):
        load_config()
    with pytest.raises(ConfigError, match="no kubeconfig at"):
        load_config(kubeconfig=places / "missing")


def test_pure_modules_import_neither_httpx_nor_yaml() -> None:
    """Configuration, requests and frames import neither httpx nor yaml nor a parser."""
    code = (
        "import sys, opsdk.rest.config, opsdk.rest.kubeconfig, opsdk.rest.request, opsdk.rest.response, "
        "opsdk.rest.frames, opsdk.rest.retry, opsdk.rest.in_cluster, opsdk.rest.discovery\n"
        "print([m for m in ('httpx', 'yaml', 'httptools') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
