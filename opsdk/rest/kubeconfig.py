"""kubeconfig files: parsed, merged as kubectl merges them, and converted to a `RestConfig`.

Only `read_file` has I/O. Every message names the file and the entry.

Upstream: k8s.io/client-go/tools/clientcmd/loader.go, client_config.go (v1.36)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from opsdk.apimachinery.serializer.documents import SyntaxProblemError
from opsdk.errors import ConfigError
from opsdk.rest.config import ExecConfig, Impersonate, OidcConfig, RestConfig
from opsdk.rest.proxy import parse_proxy
from opsdk.structured_merge.value import JsonObject, JsonValue

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


class KubeconfigEntry(msgspec.Struct, frozen=True):
    """One named cluster, user or context, and the file that defines it."""

    kind: str
    name: str
    file: Path
    data: Mapping[str, JsonValue]

    def __repr__(self) -> str:
        return f"<KubeconfigEntry {self.kind} {self.name} of {self.file}>"  # without the data, for logs

    def fail(self, problem: str) -> ConfigError:
        """Return the error for this entry."""
        return ConfigError(f"{self.file}: {self.kind} {self.name!r}: {problem}")

    def text(self, key: str) -> str:
        """Return a string field, empty if absent."""
        value = self.data.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.fail(f"{key} must be a string, not {type(value).__name__}")
        return value

    def flag(self, key: str) -> bool:
        """Return a boolean field, false if absent."""
        value = self.data.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self.fail(f"{key} must be true or false")

    def path(self, key: str) -> str:
        """Return a file name, resolved relative to the kubeconfig."""
        value = self.text(key)
        return str(self.file.parent / value) if value else ""

    def data_of(self, key: str) -> bytes:
        """Return base64 data, empty if absent."""
        value = self.text(key)
        try:
            return base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.fail(f"{key} is not valid base64") from error

    def strings(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, empty if absent."""
        value = self.data.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(f"{key} must be a list of strings")
        return tuple(value)


class Kubeconfig(msgspec.Struct, frozen=True):
    """Merged kubeconfig files. `files` are the files that were read, for messages."""

    clusters: Mapping[str, KubeconfigEntry]
    users: Mapping[str, KubeconfigEntry]
    contexts: Mapping[str, KubeconfigEntry]
    current_context: str
    files: Sequence[Path]


# ------------------------------------------------------------------ reading and merging
def read_file(path: Path) -> Mapping[str, JsonValue] | None:
    """Return the content of one file, or None if it does not exist. Raises `ConfigError`."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return _parse(path, raw)


def _parse(path: Path, raw: bytes) -> Mapping[str, JsonValue]:
    """Parse YAML. Every error names `path`."""
    # Start-up time: PyYAML takes 35 ms.
    from opsdk.apimachinery.serializer.yaml_documents import read_documents  # noqa: PLC0415

    try:
        documents = read_documents(raw)
    except SyntaxProblemError as error:
        # Without the parser's words, which may quote a token.
        where = f" in line {error.line}" if error.line else ""
        raise ConfigError(f"{path}: not valid YAML{where}") from None
    document = documents[0] if documents else None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: a kubeconfig is a mapping, not {type(document).__name__}")
    for key, expected in (("apiVersion", "v1"), ("kind", "Config")):
        if (value := document.get(key) or expected) != expected:
            raise ConfigError(f"{path}: {key} is {value!r}, but that of a kubeconfig is {expected}")
    return document


def merge(files: Iterable[tuple[Path, Mapping[str, JsonValue]]]) -> Kubeconfig:
    """Merge files in order. The first file that has an entry, or a current context, defines it."""
    tables: dict[str, dict[str, KubeconfigEntry]] = {"clusters": {}, "users": {}, "contexts": {}}
    current, paths = "", []
    for path, document in files:
        paths.append(path)
        for section, table in tables.items():
            for name, entry in _entries(path, document, section).items():
                table.setdefault(name, entry)
        chosen = document.get("current-context") or ""
        if not isinstance(chosen, str):
            raise ConfigError(f"{path}: current-context must be a string")
        current = current or chosen
    return Kubeconfig(**tables, current_context=current, files=paths)


def _entries(path: Path, document: Mapping[str, JsonValue], section: str) -> dict[str, KubeconfigEntry]:
    """Return the named entries of one section of one file."""
    kind, entries = section.removesuffix("s"), {}
    listed = document.get(section) or []
    if not isinstance(listed, list):
        raise ConfigError(f"{path}: {section} must be a list")
    for index, item in enumerate(listed):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str):
            raise ConfigError(f"{path}: {section}[{index}] must be a mapping with a name")
        data = item.get(kind) or {}
        if not isinstance(data, dict):
            raise ConfigError(f"{path}: {kind} {name!r}: must be a mapping")
        if name in entries:
            raise ConfigError(f"{path}: {kind} {name!r}: appears twice")
        entries[name] = KubeconfigEntry(kind, name, path, data)
    return entries


def config_from_files(paths: Sequence[Path], *, context: str | None = None, required: bool = False) -> RestConfig:
    """Read, merge and resolve kubeconfig files.

    Missing files are skipped unless `required`. Raises `ConfigError` if no file exists.
    """
    documents = [(path, document) for path in paths if (document := read_file(path)) is not None]
    if not documents or (required and len(documents) < len(paths)):
        raise ConfigError(f"no kubeconfig at {', '.join(map(str, paths))}")
    return resolve(merge(documents), context=context)


def config_from_text(text: str | bytes, *, source: str, context: str | None = None) -> RestConfig:
    """Return the `RestConfig` of a kubeconfig that another party wrote, such as the content of a Secret.

    Such a kubeconfig can neither run programs nor read files of this process.

    Args:
        text: YAML or JSON.
        source: where it is from, for errors.
        context: name of a context; default: the current context.

    Raises:
        ConfigError: it is invalid, has an exec plugin, or names a file.
    """
    path = Path(source)
    raw = text.encode() if isinstance(text, str) else text
    config = resolve(merge([(path, _parse(path, raw))]), context=context)
    if config.exec is not None:
        raise ConfigError(f"{source}: an exec plugin is not allowed here: use a token or a client certificate")
    files = [name for name in ("ca_file", "client_cert_file", "client_key_file", "token_file") if getattr(config, name)]
    if files:
        raise ConfigError(f"{source}: {', '.join(files)} name files, which are not read here: put the data inline")
    return config


# ------------------------------------------------------------------ one context
def resolve(kubeconfig: Kubeconfig, *, context: str | None = None) -> RestConfig:
    """Return the `RestConfig` of `context`, or of the current context."""
    files = ", ".join(map(str, kubeconfig.files))
    name = context or kubeconfig.current_context
    available = ", ".join(sorted(kubeconfig.contexts)) or "none"
    if not name:
        raise ConfigError(f"{files}: no current-context is set: pass context=...; available: {available}")
    if name not in kubeconfig.contexts:
        raise ConfigError(f"{files}: no context {name!r}; available: {available}")
    chosen = kubeconfig.contexts[name]
    cluster = _resolve_reference(kubeconfig.clusters, chosen, "cluster")
    if cluster is None:
        raise chosen.fail("names no cluster")
    server = cluster.text("server")
    if not server:
        raise cluster.fail("has no server")
    user = _resolve_reference(kubeconfig.users, chosen, "user")
    settings = _cluster_settings(cluster) | (_user_settings(user, cluster) if user else {})
    try:
        namespace, place = chosen.text("namespace"), f"the context {name} of {files}"
        source = place if namespace else f"the default, because {place} has none"
        return RestConfig(
            host=server, source=place, namespace=namespace or "default", namespace_source=source, **settings
        )
    except ConfigError as error:
        raise chosen.fail(str(error)) from error


def _resolve_reference(
    table: Mapping[str, KubeconfigEntry], context: KubeconfigEntry, key: str
) -> KubeconfigEntry | None:
    name = context.text(key)
    if not name:
        return None
    if name not in table:
        raise context.fail(f"names {key} {name!r}, which is in none of the files")
    return table[name]


def _cluster_settings(cluster: KubeconfigEntry) -> JsonObject:
    insecure, ca_data = cluster.flag("insecure-skip-tls-verify"), cluster.data_of("certificate-authority-data")
    if proxy_url := cluster.text("proxy-url"):
        try:
            parse_proxy(proxy_url if "://" in proxy_url else f"://{proxy_url}")
        except ConfigError as error:
            raise cluster.fail(f"proxy-url: {error}") from None
    return {
        "ca_data": ca_data,
        "ca_file": "" if ca_data else cluster.path("certificate-authority"),
        "insecure_skip_tls_verify": insecure,
        "tls_server_name": cluster.text("tls-server-name"),
        "proxy_url": proxy_url,
        "disable_compression": cluster.flag("disable-compression"),
    }


def _user_settings(user: KubeconfigEntry, cluster: KubeconfigEntry) -> JsonObject:
    """Return the fields of `RestConfig` that a kubeconfig's user sets."""
    cert_data, key_data = user.data_of("client-certificate-data"), user.data_of("client-key-data")
    extra = user.data.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise user.fail("as-user-extra must be a mapping of lists")
    values = KubeconfigEntry(user.kind, user.name, user.file, extra)
    return {
        "client_cert_data": cert_data,
        "client_cert_file": "" if cert_data else user.path("client-certificate"),
        "client_key_data": key_data,
        "client_key_file": "" if key_data else user.path("client-key"),
        "token": user.text("token"),
        "token_file": user.path("tokenFile"),
        "username": user.text("username"),
        "password": user.text("password"),
        "impersonate": Impersonate(
            user=user.text("as"),
            uid=user.text("as-uid"),
            groups=user.strings("as-groups"),
            extra={str(key): values.strings(key) for key in extra},
        ),
        "exec": _exec_config(user, cluster),
        "oidc": _oidc_config(user),
    }


def _oidc_config(user: KubeconfigEntry) -> OidcConfig | None:
    """Return the OpenID Connect provider of a kubeconfig's user, or None. Raises `ConfigError`."""
    provider = user.data.get("auth-provider")
    if not provider:
        return None
    if not isinstance(provider, dict) or not isinstance(provider.get("config"), dict | None):
        raise user.fail("auth-provider must be a mapping with a name and a config")
    if provider.get("name") != "oidc":
        raise user.fail(f"auth-provider {provider.get('name')!r} is not supported, only oidc is; use an exec plugin")
    entry = KubeconfigEntry("auth-provider of user", user.name, user.file, provider.get("config") or {})
    issuer, client = entry.text("idp-issuer-url"), entry.text("client-id")
    if not issuer.startswith("https://") or not client:
        raise entry.fail("needs an idp-issuer-url with https:// and a client-id")
    ca_data = entry.data_of("idp-certificate-authority-data")
    return OidcConfig(
        issuer_url=issuer,
        client_id=client,
        client_secret=entry.text("client-secret"),
        id_token=entry.text("id-token"),
        refresh_token=entry.text("refresh-token"),
        ca_data=ca_data,
        ca_file="" if ca_data else entry.path("idp-certificate-authority"),
        kubeconfig=str(user.file),
        user=user.name,
    )


def _exec_config(user: KubeconfigEntry, cluster: KubeconfigEntry) -> ExecConfig | None:
    """Return the credential plugin of a kubeconfig's user, or None. Raises `ConfigError`."""
    data = user.data.get("exec")
    if not data:
        return None
    if not isinstance(data, dict):
        raise user.fail("exec must be a mapping")
    entry = KubeconfigEntry("exec of user", user.name, user.file, data)
    command, version = entry.text("command"), entry.text("apiVersion")
    if not command:
        raise entry.fail("has no command")
    if version not in _EXEC_VERSIONS:
        raise entry.fail(f"apiVersion must be one of {', '.join(_EXEC_VERSIONS)}, not {version!r}")
    # Version v1 has no default, as in client-go.
    mode = entry.text("interactiveMode") or ("IfAvailable" if version != _EXEC_VERSIONS[0] else "")
    if mode not in _INTERACTIVE_MODES:
        raise entry.fail(f"interactiveMode must be one of {', '.join(_INTERACTIVE_MODES)}, not {mode!r}")
    env = entry.data.get("env") or []
    if not isinstance(env, list) or not all(isinstance(item, dict) for item in env):
        raise entry.fail("env must be a list of name and value")
    variables = (KubeconfigEntry(entry.kind, entry.name, entry.file, item) for item in env)
    listed = cluster.data.get("extensions") or []
    extensions = (
        item.get("extension")
        for item in (listed if isinstance(listed, list) else ())
        if isinstance(item, dict) and item.get("name") == _EXEC_EXTENSION
    )
    return ExecConfig(
        # A bare name is looked up in PATH; anything with a slash is a file next to the kubeconfig.
        command=entry.path("command") if "/" in command else command,
        args=entry.strings("args"),
        env={variable.text("name"): variable.text("value") for variable in variables},
        api_version=version,
        provide_cluster_info=entry.flag("provideClusterInfo"),
        cluster_config=next(extensions, None),
        interactive_mode=mode,
        install_hint=entry.text("installHint"),
    )
