"""The checks of the Pod Security Standards. Pure.

Each check yields the violations of a pod.

Upstream: k8s.io/pod-security-admission/policy (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

import msgspec

from envtest.admission.pod_security.levels import LevelVersion
from opsdk.apiserver.api_errors import quoted
from opsdk.structured_merge.value import JsonObject, JsonValue

_ORDER: Final = ("initContainers", "containers", "ephemeralContainers")
_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
_VOLUMES: Final = frozenset(
    {
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
        "secret",
    }
)  # fmt: skip
_SYSCTLS: Final = (
    (0, frozenset({
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range", "net.ipv4.tcp_syncookies",
    })),
    (27, frozenset({"net.ipv4.ip_local_reserved_ports"})),
    (29, frozenset({
        "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
    })),
    (32, frozenset({"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"})),
)  # fmt: skip
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP: Final = ("seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/")
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_HOSTS: Final = frozenset({"", "127.0.0.1", "::1"})


class Pod:
    """A pod, or a pod template, and the version of the standard that it is checked against."""

    def __init__(self, meta: JsonObject, spec: JsonObject, minor: int) -> None:
        self.annotations: JsonObject = meta.get("annotations") or {}
        self.spec = spec
        self.minor = minor

    @cached_property
    def containers(self) -> Sequence[JsonObject]:
        """Return all containers, init containers first."""
        return [container for key in _ORDER for container in self.spec.get(key) or ()]

    @property
    def windows(self) -> bool:
        """Whether the pod runs on Windows, so that checks of Linux features are skipped."""
        return self.minor >= 25 and (self.spec.get("os") or {}).get("name") == "windows"

    def named(self, bad: Callable[[JsonObject], bool]) -> list[str]:
        """Return the names of the containers that `bad` is true for."""
        return [str(c.get("name", "")) for c in self.containers if bad(c)]

    def setters(self, *path: str, bad: Callable[[JsonValue], bool]) -> tuple[list[str], list[JsonValue]]:
        """Return the parts of a pod that set a security context field to a bad value; the pod itself is first."""
        own = _get(self.spec, path)
        values = [own] if bad(own) else []
        setters = ["pod"] if values else []
        containers = self.named(lambda c: bad(_get(c, path)))
        values.extend(v for c in self.containers if bad(v := _get(c, path)))
        return [*setters, *([_with_names("container", containers)] if containers else [])], values


def _get(owner: JsonObject, path: Iterable[str]) -> JsonValue:
    value: JsonValue = owner.get("securityContext") or {}
    for key in path:
        value = (value or {}).get(key)
    return value


def _with_names(word: str, names: Sequence[str]) -> str:
    """Return ``container "a"`` or ``containers "a", "b"``."""
    return f"{_word(word, names)} {_listed(names)}"


def _word(word: str, names: Sequence[JsonValue]) -> str:
    return word if len(names) == 1 else f"{word}s"


def _use(names: Sequence[JsonValue]) -> str:
    return "uses" if len(names) == 1 else "use"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(quoted(name) for name in names)


def _distinct(values: Iterable[str]) -> list[str]:
    return sorted(set(values))


# ------------------------------------------------------------------ baseline
def _apparmor(pod: Pod) -> str:
    bad, values = pod.setters("appArmorProfile", "type", bad=lambda v: v is not None and v not in _PROFILES)
    if bad:
        return f"{' and '.join(bad)} must not set AppArmor profile type to {_listed(_distinct(values))}"
    old = [
        f"{k}={quoted(v)}"
        for k, v in sorted(pod.annotations.items())
        if k.startswith(_APPARMOR) and not (v in ("", "runtime/default") or v.startswith("localhost/"))
    ]
    return f"{_word('annotation', old)} {', '.join(old)}" if old else ""


def _added(container: JsonObject) -> list[str]:
    return list(_get(container, ("capabilities", "add")) or ())


def _too_capable(pod: Pod, allowed: frozenset[str]) -> str:
    bad = pod.named(lambda c: not allowed.issuperset(_added(c)))
    capabilities = _distinct(name for c in pod.containers for name in _added(c) if name not in allowed)
    return (
        f"{_with_names('container', bad)} must not include {_listed(capabilities)} in securityContext.capabilities.add"
        if bad
        else ""
    )


def _host_paths(pod: Pod) -> str:
    volumes = [v["name"] for v in pod.spec.get("volumes") or () if v.get("hostPath") is not None]
    return _with_names("volume", volumes) if volumes else ""


def _ports(container: JsonObject) -> list[str]:
    return [str(p["hostPort"]) for p in container.get("ports") or () if p.get("hostPort")]


def _host_ports(pod: Pod) -> str:
    bad = pod.named(lambda c: bool(_ports(c)))
    ports = _distinct(port for c in pod.containers for port in _ports(c))
    return f"{_with_names('container', bad)} {_use(bad)} {_word('hostPort', ports)} {', '.join(ports)}" if bad else ""


def _probed(container: JsonObject) -> Iterator[str]:
    handlers = [container.get(key) for key in ("livenessProbe", "readinessProbe", "startupProbe")]
    handlers.extend((container.get("lifecycle") or {}).values())
    for handler in handlers:
        for key in ("httpGet", "tcpSocket"):
            host = ((handler or {}).get(key) or {}).get("host") or ""
            if host not in _HOSTS:
                yield host


def _probes(pod: Pod) -> str:
    bad = pod.named(lambda c: any(_probed(c)))
    hosts = _distinct(host for c in pod.containers for host in _probed(c))
    if not bad:
        return ""
    return f"{_with_names('container', bad)} {_use(bad)} {_word('probe or lifecycle host', hosts)} {_listed(hosts)}"


def _privileged(pod: Pod) -> str:
    bad = pod.named(lambda c: bool(_get(c, ("privileged",))))
    return f"{_with_names('container', bad)} must not set securityContext.privileged=true" if bad else ""


def _proc_mount(pod: Pod) -> str:
    bad = pod.named(lambda c: _get(c, ("procMount",)) not in (None, "Default"))
    types = _distinct(v for c in pod.containers if (v := _get(c, ("procMount",))) not in (None, "Default"))
    return f"{_with_names('container', bad)} must not set securityContext.procMount to {_listed(types)}" if bad else ""


def _selinux(pod: Pod) -> str:
    allowed = {"", "container_t", "container_init_t", "container_kvm_t"}
    if pod.minor >= 31:
        allowed.add("container_engine_t")

    def bad(options: JsonValue) -> bool:
        selinux = options or {}
        return bool(selinux.get("type", "") not in allowed or selinux.get("user") or selinux.get("role"))

    setters, values = pod.setters("seLinuxOptions", bad=bad)
    types = _distinct(v["type"] for v in values if v.get("type", "") not in allowed)
    data = [f"{_word('type', types)} {_listed(types)}"] if types else []
    data.extend(f"{key} may not be set" for key in ("user", "role") if any(v.get(key) for v in values))
    return f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}" if setters else ""


def _seccomp(pod: Pod) -> str:
    if pod.minor < 19:
        marked = (i for i in sorted(pod.annotations.items()) if i[0] == _SECCOMP[0] or i[0].startswith(_SECCOMP[1]))
        old = [
            f"{key}={quoted(value)}"
            for key, value in marked
            if not (value in ("runtime/default", "docker/default") or value.startswith("localhost/"))
        ]
        return f"forbidden {_word('annotation', old)} {', '.join(old)}" if old else ""
    bad, values = pod.setters("seccompProfile", "type", bad=lambda v: v is not None and v not in _PROFILES)
    if not bad:
        return ""
    return f"{' and '.join(bad)} must not set securityContext.seccompProfile.type to {_listed(_distinct(values))}"


def _sysctls(pod: Pod) -> str:
    allowed = {name for since, names in _SYSCTLS if pod.minor >= since for name in names}
    sysctls = (pod.spec.get("securityContext") or {}).get("sysctls") or ()
    return ", ".join(s.get("name", "") for s in sysctls if s.get("name", "") not in allowed)


def _host_process(pod: Pod) -> str:
    bad, _ = pod.setters("windowsOptions", "hostProcess", bad=bool)
    return f"{' and '.join(bad)} must not set securityContext.windowsOptions.hostProcess=true" if bad else ""


# ------------------------------------------------------------------ restricted
def _escalation(pod: Pod) -> str:
    bad = [] if pod.windows else pod.named(lambda c: _get(c, ("allowPrivilegeEscalation",)) is not False)
    return f"{_with_names('container', bad)} must set securityContext.allowPrivilegeEscalation=false" if bad else ""


def _dropped(pod: Pod) -> str:
    if pod.windows:
        return ""
    bad = pod.named(lambda c: "ALL" not in (_get(c, ("capabilities", "drop")) or ()))
    drop = f'{_with_names("container", bad)} must set securityContext.capabilities.drop=["ALL"]' if bad else ""
    return "; ".join(filter(None, (drop, _too_capable(pod, frozenset({"NET_BIND_SERVICE"})))))


def _volumes(pod: Pod) -> str:
    kinds = {v["name"]: next((k for k in v if k != "name"), "unknown") for v in pod.spec.get("volumes") or ()}
    bad = [name for name, kind in kinds.items() if kind not in _VOLUMES]
    types = _distinct(kinds[name] for name in bad)
    if not bad:
        return ""
    return f"{_with_names('volume', bad)} {_use(bad)} {_word('restricted volume type', types)} {_listed(types)}"


def _non_root(pod: Pod) -> str:
    bad, _ = pod.setters("runAsNonRoot", bad=lambda v: v is False)
    if bad:
        return f"{' and '.join(bad)} must not set securityContext.runAsNonRoot=false"
    silent = [] if _get(pod.spec, ("runAsNonRoot",)) else pod.named(lambda c: _get(c, ("runAsNonRoot",)) is None)
    return f"pod or {_with_names('container', silent)} must set securityContext.runAsNonRoot=true" if silent else ""


def _user(pod: Pod) -> str:
    bad, _ = pod.setters("runAsUser", bad=lambda v: v == 0)
    return f"{' and '.join(bad)} must not set runAsUser=0" if bad else ""


def _seccomp_set(pod: Pod) -> str:
    path = ("seccompProfile", "type")
    bad = "" if pod.windows else _seccomp(pod)
    if bad or pod.windows or _get(pod.spec, path) is not None:
        return bad
    silent = pod.named(lambda c: _get(c, path) is None)
    text = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return f"pod or {_with_names('container', silent)} {text}" if silent else ""


# ------------------------------------------------------------------ all of them
class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check. From its minor version on it replaces an older check with the same reason."""

    reason: str
    find: Callable[[Pod], str]
    since: int = 0
    restricted: bool = False
    replaces: str = ""


CHECKS: Final[Sequence[Check]] = (
    Check(reason="forbidden AppArmor profile", find=_apparmor),
    Check(reason="non-default capabilities", find=lambda pod: _too_capable(pod, _CAPABILITIES)),
    Check(
        reason="host namespaces",
        find=lambda pod: ", ".join(f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(key)),
    ),
    Check(reason="hostPath volumes", find=_host_paths),
    Check(reason="hostPort", find=_host_ports),
    Check(reason="probe or lifecycle host", find=_probes, since=34),
    Check(reason="privileged", find=_privileged),
    Check(reason="procMount", find=_proc_mount),
    Check(reason="seLinuxOptions", find=_selinux),
    Check(reason="seccompProfile", find=_seccomp),
    Check(reason="forbidden sysctls", find=_sysctls),
    Check(reason="hostProcess", find=_host_process),
    Check(reason="allowPrivilegeEscalation != false", find=_escalation, since=8, restricted=True),
    Check(
        reason="unrestricted capabilities",
        find=_dropped,
        since=22,
        restricted=True,
        replaces="non-default capabilities",
    ),
    Check(reason="restricted volume types", find=_volumes, restricted=True, replaces="hostPath volumes"),
    Check(reason="runAsNonRoot != true", find=_non_root, restricted=True),
    Check(reason="runAsUser=0", find=_user, since=23, restricted=True),
    Check(reason="seccompProfile", find=_seccomp_set, since=19, restricted=True, replaces="seccompProfile"),
)
"""In the order of their violations in messages."""


def _applying(demand: LevelVersion) -> Iterator[Check]:
    if demand.lenient:
        return
    strict = demand.level == "restricted"
    checks = [c for c in CHECKS if demand.minor >= c.since and (strict or not c.restricted)]
    replaced = {c.replaces for c in checks if c.replaces}
    yield from (c for c in checks if c.restricted or c.reason not in replaced)


class Violation(msgspec.Struct, frozen=True):
    """The reason of a violation, and its details."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


def violations(demand: LevelVersion, meta: JsonObject, spec: JsonObject) -> list[Violation]:
    """Return the violations of a pod against a level."""
    pod = Pod(meta, spec, demand.minor)
    return [Violation(c.reason, detail) for c in _applying(demand) if (detail := c.find(pod))]
