"""ClusterSecret, which is written in Python with kopf: one Secret in many namespaces."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, field

from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator, PartialObjectMetadata, Request
from opsdk.api.core.v1 import Namespace, Secret
from opsdk.apimachinery.crd import Rule, validations
from opsdk.apimachinery.kinds import metadata_only
from opsdk.builder.arguments import WatchSpec
from opsdk.rbac.rules import applies, deletes, patches_status

Pattern = Annotated[str, Meta(min_length=1, max_length=63, description="The name of a namespace; * is any text.")]
NAMESPACES = metadata_only(Namespace)


class ClusterSecretSpec(Model, kw_only=True):
    """A Secret, and the namespaces that get it."""

    # Upstream has regular expressions. Those of a user can take a process for hours.
    match_namespace: list[Pattern] = field(default_factory=lambda: ["*"])
    avoid_namespaces: list[Pattern] = field(default_factory=list)
    type: Annotated[str, validations(Rule("self == oldSelf", message="is immutable"))] = "Opaque"
    data: dict[str, bytes] = field(default_factory=dict)

    def selects(self, namespace: str) -> bool:
        """Whether a namespace gets the Secret."""

        def matches(patterns: list[str]) -> bool:
            return any(fnmatchcase(namespace, pattern) for pattern in patterns)

        return matches(self.match_namespace) and not matches(self.avoid_namespaces)


class ClusterSecretStatus(Model, kw_only=True):
    """The namespaces that have the Secret."""

    synced_namespaces: list[str] = field(default_factory=list)


class ClusterSecret(Object[ClusterSecretSpec, ClusterSecretStatus]):
    """A Secret of many namespaces."""

    gvk = GroupVersionKind("clustersecret.example.com", "v1", "ClusterSecret")
    namespaced = False


operator = Operator("cluster-secret")


async def all_secrets(_: PartialObjectMetadata) -> list[Request]:
    """Map a namespace to all ClusterSecrets: each decides whether it selects the namespace."""
    return [Request.of(secret) for secret in await operator.client.list(ClusterSecret)]


@operator.reconciler(
    ClusterSecret,
    owns=[Secret],
    watches=[WatchSpec(kind=NAMESPACES, handler=all_secrets)],
    rbac=[applies(Secret), deletes(Secret), patches_status(ClusterSecret)],
)
async def reconcile(secret: ClusterSecret, ctx: Context) -> None:
    """Apply the Secret in each selected namespace, and delete those of others. The garbage collector does the rest."""
    live = [each.metadata for each in await ctx.client.list(NAMESPACES) if each.metadata.deletion_timestamp is None]
    names = sorted(each.name for each in live if secret.spec.selects(each.name))
    await ctx.apply_all([copy_of(secret, name) for name in names], prune=[Secret])
    async with ctx.status(secret) as patch:
        patch.status.synced_namespaces = names


def copy_of(secret: ClusterSecret, namespace: str) -> Secret:
    """Return the Secret of a namespace."""
    meta = ObjectMeta(name=secret.metadata.name, namespace=namespace)
    return Secret(metadata=meta, type=secret.spec.type, data=secret.spec.data)


if __name__ == "__main__":
    operator.main()
