"""``opsdk canary``: gives chosen namespaces or shards to a new version of an operator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec
import typer

from opsdk.api.coordination.v1 import Lease
from opsdk.cli.consent import DryRunOption, YesOption
from opsdk.cli.output import Output, OutputFormat, print_result
from opsdk.cli.target import Attempt, Consent, ContextOption, KubeconfigOption, TargetCluster
from opsdk.cluster.cluster import Cluster
from opsdk.errors import UsageError
from opsdk.fleet.canary_change import CanaryLease, FleetView, end_canary, start_canary
from opsdk.fleet.canary_rules import Canary, CanaryPhase, describe_canary
from opsdk.fleet.shard_lease import FLEET_LABEL
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject

_Version = Annotated[str, typer.Argument(metavar="VERSION", help="FleetOptions(version=...) of the new version")]
_Shards = Annotated[
    list[str], typer.Option("--shard", "-s", metavar="NAME", help="a namespace or shard for it; can be repeated")
]
_Base = Annotated[str | None, typer.Option(metavar="VERSION", help="the old version; default: the other one that runs")]
_Fallback = Annotated[
    bool, typer.Option("--fallback/--no-fallback", help="whether shards of a crashed version go to the other one")
]
_Force = Annotated[bool, typer.Option("--force", help="also if no member of the version that gets all shards runs")]
_Fleet = Annotated[str, typer.Option(metavar="NAME", help="the fleet; default: the only one of the namespace")]
_Namespace = Annotated[str, typer.Option("--namespace", "-n", help="of the fleet's leases; default: the context's")]


def start(
    version: _Version,
    *,
    shards: _Shards,
    base: _Base = None,
    fallback: _Fallback = True,
    fleet: _Fleet = "",
    namespace: _Namespace = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Give namespaces or shards to a new version. Start the canary before you deploy that version.

    Of a version that runs as a canary, it replaces the shards. The old version keeps a shard until a pod of the new
    version has filled its caches.

    opsdk canary start 2.0.0 --shard red --shard blue

    opsdk canary start 2.0.0 --shard red --no-fallback --namespace shop
    """
    consent = Consent.of(TargetCluster(context, kubeconfig), yes=yes, dry_run=dry_run)
    _change(
        f"give {', '.join(shards)} to version {version}",
        lambda view: start_canary(view, version, shards, base=base, fallback=fallback),
        (fleet, namespace),
        output,
        consent,
    )


def promote(
    *,
    force: _Force = False,
    fleet: _Fleet = "",
    namespace: _Namespace = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Give all shards to the new version. The old version then owns nothing, and can be removed.

    opsdk canary promote
    """
    consent = Consent.of(TargetCluster(context, kubeconfig), yes=yes, dry_run=dry_run)
    _change(
        "give all shards to the new version",
        lambda view: end_canary(view, CanaryPhase.PROMOTED, force=force),
        (fleet, namespace),
        output,
        consent,
    )


def abort(
    *,
    force: _Force = False,
    fleet: _Fleet = "",
    namespace: _Namespace = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Give all shards back to the old version, also after a promotion.

    opsdk canary abort
    """
    consent = Consent.of(TargetCluster(context, kubeconfig), yes=yes, dry_run=dry_run)
    _change(
        "give all shards back to the old version",
        lambda view: end_canary(view, CanaryPhase.ABORTED, force=force),
        (fleet, namespace),
        output,
        consent,
    )


def status(
    *,
    fleet: _Fleet = "",
    namespace: _Namespace = "",
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Print the canary, and the version that owns each shard.

    opsdk canary status

    opsdk canary status --output json
    """
    config = TargetCluster(context, kubeconfig).to_read()
    view = asyncio.run(change_canary(config, fleet, namespace, None))
    print_result(output, view_to_json(view), describe_view(view))


# -------------------------------------------------------------- the cluster
def _change(
    what: str,
    change: Callable[[FleetView], Canary],
    place: tuple[str, str],
    output: OutputFormat,
    consent: Consent,
) -> None:
    """Change the choice of a fleet, and print the fleet."""
    fleet, namespace = place

    def run(attempt: Attempt) -> None:
        view = asyncio.run(change_canary(attempt.config, fleet, namespace, change, dry_run=attempt.dry_run))
        attempt.print(output, view_to_json(view), describe_view(view))

    consent.change(run, what=what, namespace=namespace)


async def change_canary(
    config: RestConfig,
    fleet: str,
    namespace: str,
    change: Callable[[FleetView], Canary] | None,
    *,
    dry_run: bool = False,
) -> FleetView:
    """Write the choice that `change` returns, unless it is a dry run, and return the fleet with it.

    Raises:
        UsageError: the namespace has no fleet, or several; or `change` refuses.
    """
    async with Cluster(config) as cluster:
        namespace = namespace or config.namespace
        name = fleet or await _only_fleet(cluster, namespace)
        lease = CanaryLease(cluster.uncached, name, namespace)
        view = await lease.view()
        if change is None:
            return view
        if dry_run:
            return msgspec.structs.replace(view, canary=change(view))
        await lease.write(change(view))
        return await lease.view()


async def _only_fleet(cluster: Cluster, namespace: str) -> str:
    leases = await cluster.uncached.list(Lease, namespace=namespace, label_selector=FLEET_LABEL)
    names = sorted({lease.metadata.labels[FLEET_LABEL] for lease in leases.items})
    if len(names) != 1:
        problem = f"has the fleets {', '.join(names)}" if names else "has no leases of a fleet"
        raise UsageError(f"namespace {namespace} {problem}: pass --fleet NAME, or --namespace of its leases")
    return names[0]


# -------------------------------------------------------------- output
def view_to_json(view: FleetView) -> JsonObject:
    """Return a fleet for programs."""
    return {
        "fleet": view.fleet,
        "namespace": view.namespace,
        "canary": describe_canary(view.canary) or None,
        "problem": view.problem,
        "settled": not view.unsettled_shards(),
        "members": [{"member": member, "version": version} for member, version in sorted(view.members.items())],
        "shards": [
            {"shard": shard, "version": view.version_of(shard), "owner": holder, "wanted": view.wanted_versions(shard)}
            for shard, holder in view.holders.items()
        ],
        "unknown_shards": view.unknown_shards(),
    }


def describe_view(view: FleetView) -> Iterator[str]:
    """Yield a fleet as lines for people."""
    yield f"fleet {view.fleet} in namespace {view.namespace}: {view.problem or _describe_canary(view.canary)}"
    for shard, holder in view.holders.items():
        version = view.version_of(shard)
        versions = view.wanted_versions(shard)
        owner = f"version {_name(version)}, {holder}" if version is not None else "no owner"
        moves = (
            "" if version in versions else f"; waits for version {' or '.join(map(_name, versions)) or '(none runs)'}"
        )
        yield f"  {shard}: {owner}{moves}"
    if unknown := view.unknown_shards():
        yield f"no shard is named {', '.join(unknown)}: check the names, or create them"
    if unsettled := view.unsettled_shards():
        yield f"{len(unsettled)} of {len(view.holders)} shards wait for their version"


def _describe_canary(canary: Canary | None) -> str:
    if canary is None:
        return "no canary"
    version, base = _name(canary.version), _name(canary.base)
    if canary.phase is CanaryPhase.PROMOTED:
        return f"version {version} is promoted, version {base} owns nothing"
    if canary.phase is CanaryPhase.ABORTED:
        return f"the canary of version {version} is aborted, version {base} owns everything"
    shards = f"{len(canary.shards)} shard{'s' if len(canary.shards) != 1 else ''}"
    strict = "" if canary.fallback else ", without a fallback"
    return f"version {version} is a canary for {shards}, version {base} has the others{strict}"


def _name(version: str | None) -> str:
    return version or "(unnamed)"
