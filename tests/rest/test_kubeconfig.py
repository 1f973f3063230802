"""Laws of `opsdk.rest.kubeconfig`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from opsdk.errors import ConfigError
from opsdk.rest.kubeconfig import config_from_files, merge, resolve
from opsdk.structured_merge.value import JsonObject

A, B = Path("/etc/a/config"), Path("/etc/b/config")


def _document(
    *, cluster: Any = None, user: Any = None, context: Any = None, current: str = "dev", **more: Any
) -> JsonObject:
    return {
        "current-context": current,
        "clusters": [{"name": "c", "cluster": {"server": "https://c"} if cluster is None else cluster}],
        "users": [{"name": "u", "user": {} if user is None else user}],
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"} if context is None else context}],
        **more,
    }


def _named(section: str, **entries: JsonObject) -> JsonObject:
    kind = section.removesuffix("s")
    return {section: [{"name": name, kind: data} for name, data in entries.items()]}


def test_the_first_file_with_an_entry_defines_all_of_it() -> None:
    """Entries of the same name are not mixed: the first file's stands alone, and others join."""
    first = _named("clusters", c={"server": "https://first"})
    second = _named("clusters", c={"server": "https://second", "tls-server-name": "x"}, d={"server": "https://d"})
    merged = merge([(A, first), (B, second)])
    assert merged.clusters["c"].data == {"server": "https://first"}
    assert (merged.clusters["d"].file, set(merged.clusters)) == (B, {"c", "d"})


@pytest.mark.parametrize(
    ("currents", "chosen"),
    [(["x", "y"], "x"), (["", "y"], "y"), ([None, "y", "z"], "y"), ([None, None], "")],
)
def test_the_first_current_context_wins(currents: list[str | None], chosen: str) -> None:
    """The current context is that of the first file that sets one."""
    files = [(A, {} if current is None else {"current-context": current}) for current in currents]
    assert merge(files).current_context == chosen


def test_parts_of_a_context_may_come_from_several_files() -> None:
    """Context, cluster and user are looked up in the merged tables, files relative to their own kubeconfig."""
    first = {"current-context": "dev", **_named("contexts", dev={"cluster": "c", "user": "u", "namespace": "shop"})}
    second = {
        **_named("clusters", c={"server": "https://c", "certificate-authority": "ca.crt"}),
        **_named("users", u={"client-certificate": "/abs/crt", "client-key": "../key", "tokenFile": "token"}),
    }
    config = resolve(merge([(A, first), (B, second)]))
    assert (config.host, config.namespace, config.ca_file) == ("https://c", "shop", "/etc/b/ca.crt")
    assert (config.client_cert_file, config.client_key_file) == ("/abs/crt", "/etc/b/../key")
    assert config.token_file == "/etc/b/token"


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("cluster", "user", "expected"),
    [
        (
            {"certificate-authority-data": _b64("CA"), "certificate-authority": "f"},
            {},
            {"ca_data": b"CA", "ca_file": ""},
        ),
        ({"insecure-skip-tls-verify": True}, {}, {"insecure_skip_tls_verify": True}),
        ({"tls-server-name": "kubernetes"}, {}, {"tls_server_name": "kubernetes"}),
        ({"proxy-url": "http://p:1"}, {}, {"proxy_url": "http://p:1"}),
        ({"disable-compression": True}, {}, {"disable_compression": True}),
        (
            {},
            {"client-certificate-data": _b64("C"), "client-certificate": "f", "client-key-data": _b64("K")},
            {"client_cert_data": b"C", "client_cert_file": "", "client_key_data": b"K"},
        ),
        ({}, {"token": "t", "tokenFile": "/f"}, {"token": "t", "token_file": "/f"}),
        ({}, {"username": "u", "password": "p"}, {"username": "u", "password": "p"}),
    ],
)
def test_settings_table(cluster: JsonObject, user: JsonObject, expected: JsonObject) -> None:
    """Each setting of a cluster and a user reaches the configuration; inline data win over files."""
    config = resolve(merge([(A, _document(cluster={"server": "https://c", **cluster}, user=user))]))
    assert {name: getattr(config, name) for name in expected} == expected


def test_impersonation_is_read() -> None:
    """``as`` and its companions become an impersonation."""
    user = {"as": "jane", "as-uid": "7", "as-groups": ["g"], "as-user-extra": {"k": ["v"]}}
    who = resolve(merge([(A, _document(user=user))])).impersonate
    assert (who.user, who.uid, tuple(who.groups), dict(who.extra)) == ("jane", "7", ("g",), {"k": ("v",)})


def test_exec_is_read() -> None:
    """An exec entry becomes a plugin, with the cluster's word to it, relative to its kubeconfig."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "./bin/login",
        "args": ["a"],
        "env": [{"name": "K", "value": "V"}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
        "installHint": "brew install login",
    }
    cluster = {
        "server": "https://c",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}],
    }
    result = resolve(merge([(A, _document(cluster=cluster, user={"exec": plugin}))])).exec
    assert result is not None
    assert (result.command, tuple(result.args), dict(result.env)) == ("/etc/a/bin/login", ("a",), {"K": "V"})
    assert (result.cluster_config, result.interactive_mode) == ({"audience": "me"}, "Never")


_OIDC = {"name": "oidc", "config": {"idp-issuer-url": "https://idp", "client-id": "kubectl"}}
_EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"clusters": "x"}, r"^/etc/a/config: clusters must be a list"),
        ({"clusters": [{"cluster": {}}]}, r"^/etc/a/config: clusters\[0\] must be a mapping with a name"),
        ({"clusters": [{"name": "c"}, {"name": "c"}]}, r"^/etc/a/config: cluster 'c': appears twice"),
        ({"users": [{"name": "u", "user": 3}]}, r"^/etc/a/config: user 'u': must be a mapping"),
        ({"current-context": 3}, r"^/etc/a/config: current-context must be a string"),
        (_document(current=""), r"no current-context is set: pass context=...; available: dev"),
        (_document(current="prod"), r"no context 'prod'; available: dev"),
        (_document(context={}), r"^/etc/a/config: context 'dev': names no cluster"),
        (_document(context={"cluster": "zz"}), r"context 'dev': names cluster 'zz', which is in none"),
        (_document(cluster={}), r"^/etc/a/config: cluster 'c': has no server"),
        (_document(cluster={"server": 5}), r"cluster 'c': server must be a string, not int"),
        (_document(cluster={"server": "x", "insecure-skip-tls-verify": "yes"}), r"cluster 'c': .* true or false"),
        (_document(cluster={"server": "x", "certificate-authority-data": "%%"}), r"cluster 'c': .* not valid base64"),
        (_document(user={"token": 12345}), r"user 'u': token must be a string"),
        (_document(user={"as-groups": "g"}), r"user 'u': as-groups must be a list"),
        (_document(user={"as-user-extra": []}), None),
        (_document(user={"as-user-extra": ["x"]}), r"user 'u': as-user-extra must be a mapping"),
        (_document(user={"auth-provider": {"name": "gcp"}}), r"user 'u': auth-provider 'gcp' is not supported"),
        (_document(user={"auth-provider": "oidc"}), r"user 'u': auth-provider must be a mapping"),
        (_document(user={"auth-provider": {"name": "oidc"}}), r"auth-provider of user 'u': needs an idp-issuer-url"),
        (_document(user={"auth-provider": _OIDC, "exec": _EXEC}), r"OIDC and an exec plugin are both set"),
        (_document(user={"exec": []}), None),
        (_document(user={"exec": ["x"]}), r"user 'u': exec must be a mapping"),
        (_document(user={"exec": {**_EXEC, "command": ""}}), r"exec of user 'u': has no command"),
        (_document(user={"exec": {**_EXEC, "apiVersion": "v1alpha1"}}), r"exec of user 'u': apiVersion must be"),
        (_document(user={"exec": {**_EXEC, "interactiveMode": "x"}}), r"exec of user 'u': interactiveMode must be"),
        (_document(user={"exec": {**_EXEC, "interactiveMode": ""}}), r"exec of user 'u': interactiveMode must be"),
        (_document(cluster={"server": "x", "proxy-url": "ftp://p:1"}), r"cluster 'c': proxy-url: .*ftp:// is not"),
        (_document(cluster={"server": "x", "proxy-url": "p:1"}), r"cluster 'c': proxy-url: the proxy must be http"),
        (_document(user={"exec": {**_EXEC, "env": "x"}}), r"exec of user 'u': env must be a list"),
        (_document(user={"client-key-data": _b64("K")}), r"context 'dev': .* key without its certificate"),
    ],
)
def test_malformed_entries_are_named(document: JsonObject, words: str | None) -> None:
    """A malformed entry is an error with file and entry; empty values count as absent."""
    if words is None:
        assert resolve(merge([(A, document)])).host == "https://c"
        return
    with pytest.raises(ConfigError, match=words):
        resolve(merge([(A, document)]))


def test_files_are_read_and_missing_ones_skipped(tmp_path: Path) -> None:
    """Of a list of kubeconfig files, missing ones are skipped; if all are missing, an error is raised."""
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(_document()))
    assert config_from_files([tmp_path / "none", path]).host == "https://c"
    with pytest.raises(ConfigError, match="no kubeconfig at"):
        config_from_files([tmp_path / "none"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "not valid YAML in line"),
        ("users:\n- token: s3cret: x", "not valid YAML in line"),
        ("- a", "a kubeconfig is a mapping"),
        ("kind: Secret", "kind is 'Secret', but that of a kubeconfig is Config"),
        ("apiVersion: v2", "apiVersion is 'v2', but that of a kubeconfig is v1"),
        ("\x00", "not valid YAML"),
    ],
)
def test_unreadable_files_are_named_without_their_text(tmp_path: Path, text: str, words: str) -> None:
    """The message about a broken file names it, and quotes nothing of it."""
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        config_from_files([path])
    assert str(path) in str(caught.value)
    assert "s3cret" not in str(caught.value)
