"""The rules that an operator declares: verbs on kinds, resources or paths. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from opsdk.errors import UsageError
from opsdk.rbac.permissions import ALL_NAMESPACES, ANY, Permission, sorted_verbs
from opsdk.rbac.resources import ResourceLike, RuleResource, resource_of

__all__ = [
    "RbacRule",
    "applies",
    "attaches",
    "deletes",
    "executes",
    "forwards_ports",
    "patches_status",
    "reads",
    "reads_logs",
    "records_events",
]

Namespaces = Callable[[RuleResource], Iterable[str]]
"""The namespaces in which an operator works with a resource."""


@dataclass(frozen=True, slots=True, init=False)
class RbacRule:
    """A rule to declare: ``RbacRule("get list watch", Secret)``.

    >>> from opsdk.api.core.v1 import Pod, Secret
    >>> RbacRule("get", Secret, resource_names=["token"], namespaces=["shop"])
    <RbacRule get secrets named token in shop>
    >>> RbacRule("create", Pod, subresource="eviction")
    <RbacRule create pods/eviction>
    >>> RbacRule("get", paths=["/metrics"])
    <RbacRule get /metrics>

    Args:
        verbs: a list, or a string with spaces between them.
        resources: classes, kinds of `unstructured_kind` or `metadata_only`, GVKs, or strings as for kubectl
            (``pods/log``, ``deployments.apps/scale``, ``*.apps``).
        subresource: of all these resources; ``status``, for example.
        resource_names: only these objects. Lists and watches are then allowed with a field selector for the name only,
            and creates only by server-side apply.
        namespaces: where the rule applies; None for the namespaces in which the operator caches the kind.
            `ALL_NAMESPACES` as a member grants all. Cluster-scoped resources have none.
        paths: URL paths outside the API, instead of resources.

    Raises:
        UsageError: the rule would allow nothing, or a string is not a resource.
    """

    verbs: tuple[str, ...]
    resources: tuple[RuleResource, ...]
    resource_names: tuple[str, ...]
    namespaces: tuple[str, ...] | None
    paths: tuple[str, ...]

    def __init__(
        self,
        verbs: str | Iterable[str],
        *resources: ResourceLike,
        subresource: str = "",
        resource_names: Collection[str] = (),
        namespaces: Collection[str] | None = None,
        paths: Collection[str] = (),
    ) -> None:
        words = sorted_verbs(verbs.replace(",", " ").split() if isinstance(verbs, str) else verbs)
        infos = tuple(resource_of(resource, subresource) for resource in resources)
        for name, value in (
            ("verbs", words),
            ("resources", infos),
            ("resource_names", tuple(sorted(set(_checked_list(resource_names, "resource_names"))))),
            ("namespaces", None if namespaces is None else tuple(sorted(set(_checked_list(namespaces, "namespaces"))))),
            ("paths", tuple(sorted(set(_checked_list(paths, "paths"))))),
        ):
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if not self.verbs or any(verb != verb.lower() for verb in self.verbs):
            raise UsageError(f"{self!r} needs verbs in lower case, such as get, list, watch, create, patch")
        if bool(self.resources) is bool(self.paths):
            raise UsageError(f"{self!r} needs either resources or paths")
        if self.paths and (self.resource_names or self.namespaces is not None):
            raise UsageError(f"{self!r}: paths have neither names nor namespaces")
        if self.namespaces == ():
            raise UsageError(f"{self!r} has an empty list of namespaces: remove it to use the namespaces of the cache")
        if self.resource_names and "deletecollection" in self.verbs:
            raise UsageError(f"{self!r}: deletecollection has no name, so resource_names would never match")

    def permissions(self, namespaces: Namespaces = lambda _: (ALL_NAMESPACES,)) -> Iterable[Permission]:
        """Return the permissions that the rule grants.

        Args:
            namespaces: the namespaces of a resource, for a rule without its own; default: all.
        """
        for verb in self.verbs:
            yield from (Permission(verb, path=path) for path in self.paths)
            for info in self.resources:
                everywhere = (ALL_NAMESPACES,)
                own = self.namespaces if self.namespaces is not None else tuple(namespaces(info))
                for namespace in own if info.namespaced else everywhere:
                    for name in self.resource_names or ("",):
                        yield Permission(verb, info.group, info.resource, name, namespace)

    def __repr__(self) -> str:
        targets = [Permission("", info.group, info.resource) for info in self.resources]
        words = [*self.verbs, *(str(target).strip() for target in targets), *self.paths]
        words += ["named", *self.resource_names] if self.resource_names else []
        words += ["in", *(name or ANY for name in self.namespaces)] if self.namespaces else []
        return f"<RbacRule {' '.join(words)}>"


def _checked_list(texts: Collection[str], option: str) -> Collection[str]:
    if isinstance(texts, str):
        raise UsageError(f"{option} is the string {texts!r}: write a list, [{texts!r}]")
    return texts


# ------------------------------------------------------------------ what calls of the context and the client need
def reads(*resources: ResourceLike, namespaces: Collection[str] | None = None) -> RbacRule:
    """Return the rule for reads from the cache: an informer lists and watches, and a read after a write may get.

    >>> from opsdk.api.core.v1 import Secret
    >>> reads(Secret)
    <RbacRule get list watch secrets>
    """
    return RbacRule("get list watch", *resources, namespaces=namespaces)


def applies(*resources: ResourceLike, namespaces: Collection[str] | None = None) -> RbacRule:
    """Return the rule for ``ctx.apply`` and ``client.apply``: a server-side apply that creates needs both verbs.

    >>> from opsdk.api.core.v1 import ConfigMap
    >>> applies(ConfigMap)
    <RbacRule create patch configmaps>
    """
    return RbacRule("create patch", *resources, namespaces=namespaces)


def deletes(*resources: ResourceLike, namespaces: Collection[str] | None = None) -> RbacRule:
    """Return the rule for ``client.delete``, and for kinds that ``ctx.apply_all`` prunes.

    >>> from opsdk.api.core.v1 import ConfigMap
    >>> deletes(ConfigMap)
    <RbacRule delete configmaps>
    """
    return RbacRule("delete", *resources, namespaces=namespaces)


def patches_status(*resources: ResourceLike, namespaces: Collection[str] | None = None) -> RbacRule:
    """Return the rule for ``ctx.status``.

    >>> from opsdk.api.apps.v1 import Deployment
    >>> patches_status(Deployment)
    <RbacRule patch deployments.apps/status>
    """
    return RbacRule("patch", *resources, subresource="status", namespaces=namespaces)


def records_events(*, namespaces: Collection[str] | None = None) -> RbacRule:
    """Return the rule for ``ctx.event``: a repeated Event is patched.

    Events about cluster-scoped objects are written to the namespace ``default``: name it if the cache does not hold it.

    >>> records_events()
    <RbacRule create patch events.events.k8s.io>
    """
    return RbacRule("create patch", "events.events.k8s.io", namespaces=namespaces)


def reads_logs(*resources: ResourceLike, namespaces: Collection[str] | None = None) -> RbacRule:
    """Return the rule for ``cluster.pods.logs``.

    >>> from opsdk.api.core.v1 import Pod
    >>> reads_logs(Pod, namespaces=["shop"])
    <RbacRule get pods/log in shop>
    """
    return RbacRule("get", *resources, subresource="log", namespaces=namespaces)


def executes(*resources: ResourceLike, namespaces: Collection[str] | None = None) -> RbacRule:
    """Return the rule for ``cluster.pods.exec``. A WebSocket is a GET request, and newer servers want create as well.

    >>> from opsdk.api.core.v1 import Pod
    >>> executes(Pod)
    <RbacRule get create pods/exec>
    """
    return RbacRule("get create", *resources, subresource="exec", namespaces=namespaces)


def attaches(*resources: ResourceLike, namespaces: Collection[str] | None = None) -> RbacRule:
    """Return the rule for ``cluster.pods.attach``, with the verbs of `executes`.

    >>> from opsdk.api.core.v1 import Pod
    >>> attaches(Pod)
    <RbacRule get create pods/attach>
    """
    return RbacRule("get create", *resources, subresource="attach", namespaces=namespaces)


def forwards_ports(*resources: ResourceLike, namespaces: Collection[str] | None = None) -> RbacRule:
    """Return the rule for ``cluster.pods.open_port`` and ``port_forward``, with the verbs of `executes`.

    >>> from opsdk.api.core.v1 import Pod
    >>> forwards_ports(Pod)
    <RbacRule get create pods/portforward>
    """
    return RbacRule("get create", *resources, subresource="portforward", namespaces=namespaces)
