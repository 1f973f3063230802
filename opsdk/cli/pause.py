"""``opsdk pause``, ``opsdk resume`` and ``opsdk reconcile``: set and remove the annotations of objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from opsdk.aio.clock import utc_now
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.duration import Duration
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind, metadata_only
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import PartialObjectMetadata, key_of
from opsdk.apimachinery.selectors import as_selector
from opsdk.builder.controller_pauses import REASON_SUFFIX
from opsdk.cli.consent import DryRunOption, YesOption
from opsdk.cli.output import Output, OutputFormat
from opsdk.cli.project import find_project
from opsdk.cli.target import Attempt, Consent, ContextOption, KubeconfigOption, TargetCluster
from opsdk.client.client import as_key
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.controller.pausing import (
    PAUSE_REASON_ANNOTATION,
    PAUSED_ANNOTATION,
    RECONCILE_ANNOTATION,
    format_time,
    parse_time,
)
from opsdk.errors import NotFoundError, UsageError
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonValue

_OptionalKind = Annotated[
    str, typer.Argument(metavar="[KIND]", help="kind as for kubectl: websites, or sites.example.com")
]
_KindArgument = Annotated[
    str, typer.Argument(metavar="KIND", help="kind as for kubectl: websites, or sites.example.com")
]
_KeyArgument = Annotated[
    str, typer.Argument(metavar="[NAMESPACE/NAME]", help="one object; NAME for cluster-scoped objects")
]
_Selector = Annotated[str, typer.Option("--selector", "-l", help="the objects with these labels, such as tier=web")]
_All = Annotated[bool, typer.Option("--all", help="all objects of the kind")]
_Namespace = Annotated[str, typer.Option("--namespace", "-n", help="namespace of the objects; default: all")]
_Controller = Annotated[str, typer.Option(metavar="NAME", help="a whole controller, instead of objects")]
_Operator = Annotated[
    str,
    typer.Option(metavar="MODULE:OPERATOR", help="the operator of --controller; default: the one in pyproject.toml"),
]


class PauseTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a command line. Raises `UsageError` unless it is exactly one object, a selector, or all."""

    kind: str
    key: str
    selector: str
    all_objects: bool
    namespace: str

    def __post_init__(self) -> None:
        choices = [name for name, value in (("NAME", self.key), ("--selector", self.selector)) if value]
        choices += ["--all"] if self.all_objects else []
        if len(choices) > 1:
            raise UsageError(f"{' and '.join(choices)} are mutually exclusive: pass one of them")
        if not choices:
            raise UsageError(f"which {self.kind or 'objects'}? Pass NAMESPACE/NAME, --selector LABELS or --all")
        if self.key:
            as_key(self.key, self.namespace)
        as_selector(self.selector)

    async def objects(self, cluster: Cluster) -> AsyncIterator[PartialObjectMetadata]:
        """Yield the objects. Raises `NotFoundError` if the only one does not exist."""
        mapping = await cluster.mapper.kind_for(self.kind)
        kind: Kind[PartialObjectMetadata] = metadata_only(mapping.gvk)
        if self.key:
            key = as_key(self.key, self.namespace)
            if mapping.namespaced != bool(key.namespace):
                form = "NAMESPACE/NAME" if mapping.namespaced else "NAME"
                raise UsageError(f"{mapping.gvk.kind} {self.key}: write {form}")
            yield await cluster.uncached.get(kind, ObjectKey(key.namespace, key.name))
            return
        pages = cluster.uncached.list_pages(kind, namespace=self.namespace, label_selector=self.selector)
        async for obj in pages:
            yield obj


def pause(
    kind: _OptionalKind = "",
    key: _KeyArgument = "",
    *,
    selector: _Selector = "",
    all_objects: _All = False,
    namespace: _Namespace = "",
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="length of the pause, such as 90m")] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="end of the pause, such as 2026-01-02T15:04:05Z")] = "",
    reason: Annotated[str, typer.Option(help="why the objects are paused, for logs and conditions")] = "",
    controller: _Controller = "",
    operator: _Operator = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Pause objects, or a controller: operators written with opsdk do not reconcile until the pause ends.

    Without --for or --until, a pause has no end. Objects that are created later are not paused. --controller requires
    OperatorOptions(pause_config_map=...).

    opsdk pause websites default/shop --for 2h --reason 'moves to another zone'

    opsdk pause websites --selector tier=web

    opsdk pause --controller website --for 30m
    """
    consent = Consent.of(TargetCluster(context, kubeconfig), yes=yes, dry_run=dry_run)
    value = pause_value(duration, until, now=utc_now())
    action = "paused" if value == "true" else f"paused until {value}"
    if controller:
        _check_alone(kind, selector, all_objects=all_objects)
        words = {controller: value, f"{controller}{REASON_SUFFIX}": reason or None}
        config_map = _config_map_of(operator, namespace)
        _set_controller(config_map, words, action, consent, output)
        return
    target = PauseTarget(kind=kind, key=key, selector=selector, all_objects=all_objects, namespace=namespace)
    _annotate(
        target,
        {PAUSED_ANNOTATION: value, PAUSE_REASON_ANNOTATION: reason or None},
        action,
        consent,
        output,
    )


def resume(
    kind: _OptionalKind = "",
    key: _KeyArgument = "",
    *,
    selector: _Selector = "",
    all_objects: _All = False,
    namespace: _Namespace = "",
    controller: _Controller = "",
    operator: _Operator = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """End the pause of objects, or of a controller. Objects that changed during the pause are reconciled.

    opsdk resume websites default/shop

    opsdk resume websites --all

    opsdk resume --controller website
    """
    consent = Consent.of(TargetCluster(context, kubeconfig), yes=yes, dry_run=dry_run)
    if controller:
        _check_alone(kind, selector, all_objects=all_objects)
        words = dict.fromkeys((controller, f"{controller}{REASON_SUFFIX}"))
        config_map = _config_map_of(operator, namespace)
        _set_controller(config_map, words, "resumed", consent, output)
        return
    target = PauseTarget(kind=kind, key=key, selector=selector, all_objects=all_objects, namespace=namespace)
    _annotate(
        target,
        {PAUSED_ANNOTATION: None, PAUSE_REASON_ANNOTATION: None},
        "resumed",
        consent,
        output,
    )


def reconcile(
    kind: _KindArgument,
    key: _KeyArgument = "",
    *,
    selector: _Selector = "",
    all_objects: _All = False,
    namespace: _Namespace = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    context: ContextOption = "",
    kubeconfig: KubeconfigOption = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Request a reconcile of objects now. Paused objects are reconciled when their pause ends.

    opsdk reconcile websites default/shop

    opsdk reconcile websites --namespace default --all
    """
    consent = Consent.of(TargetCluster(context, kubeconfig), yes=yes, dry_run=dry_run)
    target = PauseTarget(kind=kind, key=key, selector=selector, all_objects=all_objects, namespace=namespace)
    words = {RECONCILE_ANNOTATION: utc_now().astimezone(UTC).isoformat()}
    _annotate(target, words, "reconcile requested", consent, output)


def _check_alone(kind: str, selector: str, *, all_objects: bool) -> None:
    if kind or selector or all_objects:
        raise UsageError("--controller and KIND, --selector or --all are mutually exclusive: pass one of them")


def _config_map_of(operator: str, namespace: str) -> ObjectKey:
    """Return the ConfigMap that pauses the controllers of an operator. Raises `UsageError` if it follows none."""
    # Imported here for start-up time: only --controller loads the operator.
    from opsdk.cli.loading import load_operator  # noqa: PLC0415

    target = load_operator(operator)
    name = target.options.pause_config_map
    if not name:
        raise UsageError(
            f"operator {target.name} has no ConfigMap for pauses: set OperatorOptions(pause_config_map=...)"
        )
    project = find_project(Path.cwd())
    declared = target.options.namespace or (project.namespace if project is not None else "")
    return ObjectKey(namespace or declared or "default", name)


def _set_controller(
    config_map: ObjectKey,
    words: Mapping[str, str | None],
    action: str,
    consent: Consent,
    output: OutputFormat,
) -> None:
    """Set the keys of a controller in the ConfigMap of an operator, and print what was done."""
    subject = f"controller {next(iter(words))}"

    def run(attempt: Attempt) -> None:
        if not attempt.dry_run:
            asyncio.run(set_data(attempt.config, config_map, words))
        _print(attempt, [subject], action, output)

    consent.change(run, what=f"change ConfigMap {config_map.name}", namespace=config_map.namespace)


def _print(attempt: Attempt, subjects: Sequence[str], action: str, output: OutputFormat) -> None:
    mark = {"dry_run": True} if attempt.dry_run else {}
    rows: list[JsonValue] = [{"object": subject, "action": action, **mark} for subject in subjects]
    lines = [f"{subject}: {action}{' (dry run)' if attempt.dry_run else ''}" for subject in subjects]
    attempt.print(output, rows, lines or ["no objects"])


async def set_data(config: RestConfig, key: ObjectKey, words: Mapping[str, str | None]) -> None:
    """Set keys of a ConfigMap, which is created if it is missing. None removes a key."""
    async with Cluster(config) as cluster:
        client = cluster.uncached
        config_map = ConfigMap(metadata=ObjectMeta(name=key.name, namespace=key.namespace))
        try:
            await client.patch(config_map, merge_patch({"data": dict(words)}))
        except NotFoundError:
            config_map.data = {word: value for word, value in words.items() if value is not None}
            if config_map.data:
                await client.create(config_map)


def pause_value(duration: str, until: str, *, now: datetime) -> str:
    """Return the value of the annotation. Raises `UsageError` for both, a wrong form, and an end in the past.

    >>> pause_value("90m", "", now=datetime(2026, 1, 1, tzinfo=UTC))
    '2026-01-01T01:30:00Z'
    """
    if duration and until:
        raise UsageError("--for and --until are mutually exclusive: pass one of them")
    if not duration and not until:
        return "true"
    if until:
        end = parse_time(until)
        if end is None:
            raise UsageError(f"--until is {until!r}: write a time with its zone, such as 2026-01-02T15:04:05Z")
    else:
        try:
            end = now + Duration.parse(duration)
        except (ValueError, OverflowError) as error:
            raise UsageError(f"--for is {duration!r}: write a duration, such as 30s, 90m or 36h") from error
    if end <= now:
        raise UsageError(f"the pause would end at {format_time(end)}, which is not in the future")
    return format_time(end)


def _annotate(
    target: PauseTarget,
    words: Mapping[str, str | None],
    action: str,
    consent: Consent,
    output: OutputFormat,
) -> None:
    """Set the annotations of the objects, and print what was done. None removes an annotation."""

    def run(attempt: Attempt) -> None:
        changed = asyncio.run(annotate(attempt.config, target, words, dry_run=attempt.dry_run))
        _print(attempt, changed, action, output)

    namespace = target.namespace or target.key.rpartition("/")[0] or None
    consent.change(run, what=f"change annotations of {target.kind}", namespace=namespace)


async def annotate(
    config: RestConfig, target: PauseTarget, words: Mapping[str, str | None], *, dry_run: bool = False
) -> list[str]:
    """Set annotations of objects, and return their names. Objects that have no such annotation need no removal."""
    removes_only = all(value is None for value in words.values())
    changed = []
    async with Cluster(config) as cluster:
        async for obj in target.objects(cluster):
            if removes_only and not words.keys() & obj.metadata.annotations.keys():
                continue
            name = f"{obj.kind} {key_of(obj)}"
            try:
                if not dry_run:
                    await cluster.uncached.patch(obj, merge_patch({"metadata": {"annotations": dict(words)}}))
            except NotFoundError:
                continue  # deleted in the meantime
            changed.append(name)
    return changed
