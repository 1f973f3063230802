"""The two plugins: mutating webhooks one after another, validating ones all at once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from opsdk.api.gvk import GroupVersionKind
from opsdk.apiserver import problems
from opsdk.apiserver.admission.matching import (
    Asked,
    exempt,
    in_some_namespace,
    selected_labels,
    selects_object,
)
from opsdk.apiserver.admission.webhooks.answers import (
    KNOWN_VERSIONS,
    AnswerError,
    Invocation,
    Verdict,
    parse_patch,
    patched,
    question,
    read_answer,
    rejection,
    verdict,
)
from opsdk.apiserver.admission.webhooks.hooks import Hook
from opsdk.apiserver.endpoints.admit import Review
from opsdk.apiserver.outgoing.client import CallError, HookClient
from opsdk.apiserver.outgoing.target import TargetError
from opsdk.apiserver.resources import Installed
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import ApiError, DecodeError, PatchError
from opsdk.tree.equal import deep_equal

Evaluate = Callable[[Review, Invocation, Sequence[Tree]], Awaitable[Sequence[bool | str]]]
"""What each match condition says of an invocation: true, false, or what went wrong."""


class Equivalents(Protocol):
    """Other versions in which the same objects are served."""

    def equivalents(self, served: Installed) -> Sequence[Installed]:
        """The same resource or subresource in other versions and groups."""
        ...

    async def convert(self, obj: Tree, source: Installed, target: Installed) -> Tree:
        """The same object in another of them."""
        ...


class Namespaces(Protocol):
    """Where namespaces are found."""

    def __call__(self, name: str) -> Tree:
        """A namespace, else `NotFoundError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What both plugins need of the server."""

    client: HookClient
    equivalents: Equivalents
    namespace: Namespaces
    evaluate: Evaluate | None = None


class _FailedError(Exception):
    """A webhook that could not be asked; its failure policy decides."""


@dataclass(slots=True)
class _Chosen:
    """A webhook that a review concerns, and the version in which it wants to see it."""

    hook: Hook
    served: Installed
    seen: Invocation


class _Chooser:
    """Which webhooks a review concerns, and how each of them sees it."""

    def __init__(self, ports: Ports, review: Review) -> None:
        self._ports = ports
        self._review = review
        self._asked = Asked.of(review)
        self._others: Sequence[Installed] | None = None
        self._old: dict[int, Tree | None] = {}

    async def choose(self, hook: Hook) -> _Chosen | None:
        """None where the webhook is not concerned; an `ApiError` where that cannot be said."""
        review = self._review
        if not selects_object(hook.objects, review):
            return None
        served = self._served(hook)
        if served is None or not self._selects_namespace(hook):
            return None
        seen = await self.seen(served)
        if hook.conditions and not await self._conditions(hook, seen):
            return None
        return _Chosen(hook, served, seen)

    def _served(self, hook: Hook) -> Installed | None:
        """The version by which a rule means this request."""
        review = self._review
        if hook.means(self._asked):
            return review.served
        if not hook.equivalent:
            return None
        if self._others is None:
            self._others = self._ports.equivalents.equivalents(review.served)
        for rule in hook.rules:
            for other in self._others:
                info = other.info
                resource = review.resource._replace(group=info.group, version=info.version, resource=info.resource)
                if rule.matches(self._asked.instead(resource)):
                    return other
        return None

    def _selects_namespace(self, hook: Hook) -> bool:
        review = self._review
        if not hook.namespaces.requirements or not in_some_namespace(review):
            return True
        labels = selected_labels(review)
        if labels is None:
            labels = self._ports.namespace(review.namespace)["metadata"].get("labels") or {}
        return hook.namespaces.matches(labels)

    async def seen(self, served: Installed) -> Invocation:
        """The review in the version of `served`."""
        review = self._review
        if served is review.served:
            return Invocation(kind=review.kind, resource=review.resource, obj=review.obj, old=review.old)
        info = served.info
        group, _, version = info.kind_api_version.rpartition("/")
        if id(served) not in self._old:
            self._old[id(served)] = await self._converted(review.old, served)
        return Invocation(
            kind=GroupVersionKind(group, version, info.kind),
            resource=review.resource._replace(group=info.group, version=info.version, resource=info.resource),
            obj=await self._converted(review.obj, served),
            old=self._old[id(served)],
        )

    async def _converted(self, obj: Tree | None, served: Installed) -> Tree | None:
        if obj is None:
            return None
        return await self._ports.equivalents.convert(obj, self._review.served, served)

    async def _conditions(self, hook: Hook, seen: Invocation) -> bool:
        """Whether all hold. One that is false decides, whatever goes wrong in the others."""
        evaluate, review = self._ports.evaluate, self._review
        if evaluate is None:
            return True
        said = await evaluate(review, seen, hook.conditions)
        if any(outcome is False for outcome in said):
            return False
        wrong = [outcome for outcome in said if isinstance(outcome, str)]
        if wrong and not hook.ignore_failures:
            text = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
            raise problems.forbidden(review.served.info, review.name, text)
        return not wrong


class _Caller:
    """Asks one webhook."""

    def __init__(self, ports: Ports, *, mutating: bool) -> None:
        self._client = ports.client
        self._mutating = mutating

    async def ask(self, review: Review, chosen: _Chosen) -> Verdict:
        """What it decided. Its refusal is an `ApiError`; `_FailedError` where it could not be asked."""
        hook = chosen.hook
        if review.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise problems.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        found = await self._asked(review, chosen)
        for text in found.warnings:
            review.warn(text)
        if not found.allowed:
            raise rejection(hook.name, found.status)
        return found

    async def _asked(self, review: Review, chosen: _Chosen) -> Verdict:
        hook = chosen.hook
        version = next((v for v in hook.versions if v in KNOWN_VERSIONS), "")
        if not version:
            known = ", ".join(KNOWN_VERSIONS)
            why = f"webhook does not accept known AdmissionReview versions ({known})"
            raise _failed(hook, f"could not create admission objects: {why}")
        uid = str(uuid.uuid4())
        try:
            target = hook.target()
            answer = await self._client.post(
                target, question(review, chosen.seen, uid=uid, version=version), timeout=hook.timeout
            )
        except TargetError as error:
            raise _failed(hook, f"could not get REST client: {error}") from None
        except CallError as error:
            raise _failed(hook, f"failed to call webhook: {error}") from None
        try:
            response = read_answer(answer, version)
        except AnswerError as error:
            raise _failed(hook, f"failed to call webhook: {error}") from None
        try:
            return verdict(answer, response, uid=uid, version=version, mutating=self._mutating)
        except AnswerError as error:
            raise _failed(hook, f"received invalid webhook response: {error}") from None


def _failed(hook: Hook, why: str) -> _FailedError:
    return _FailedError(f'failed calling webhook "{hook.name}": {why}')


# ------------------------------------------------------------------ mutating
@dataclass(slots=True)
class _Rounds:
    """What the first round leaves to the second."""

    last: Tree | None = None
    invoked: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)

    def changed(self) -> None:
        """Somebody changed the object: who was asked before and wants to be asked again, is."""
        self.again |= self.invoked
        self.invoked.clear()


class MutatingWebhooks:
    """One after another, each sees what those before it made of the object.

    Args:
        hooks: the webhooks in the order in which they are called, as they are configured now.
    """

    def __init__(self, hooks: Callable[[], Sequence[Hook]], ports: Ports) -> None:
        self._hooks = hooks
        self._ports = ports
        self._caller = _Caller(ports, mutating=True)

    async def mutate(self, review: Review) -> None:
        """See `Admission`."""
        hooks = self._hooks()
        if not hooks or exempt(review.resource):
            return
        rounds: _Rounds = review.notes.setdefault("MutatingAdmissionWebhook", _Rounds())
        if review.again and not deep_equal(rounds.last, review.obj):
            rounds.changed()
        chooser = _Chooser(self._ports, review)
        for hook in hooks:
            if review.again and hook.uid not in rounds.again:
                continue
            chosen = await chooser.choose(hook)
            if chosen is not None:
                await self._invoke(review, chosen, rounds)
        rounds.last = review.obj

    async def validate(self, review: Review) -> None:
        """Nothing."""

    async def _invoke(self, review: Review, chosen: _Chosen, rounds: _Rounds) -> None:
        hook = chosen.hook
        try:
            found = await self._caller.ask(review, chosen)
            if found.patch and await self._patch(review, chosen, found):
                rounds.changed()
                review.reinvoke = True
        except _FailedError as error:
            if not hook.ignore_failures:
                raise problems.internal(str(error)) from None
        if hook.reinvoke:
            rounds.invoked.add(hook.uid)

    async def _patch(self, review: Review, chosen: _Chosen, found: Verdict) -> bool:
        """Change the object as the webhook asks; whether that made a difference."""
        name, before = chosen.hook.name, chosen.seen.obj
        try:
            operations = parse_patch(found.patch)
        except PatchError as error:
            raise problems.internal(str(error)) from None
        if not operations:
            return False
        if before is None:
            why = f'admission webhook "{name}" attempted to modify the object'
            raise problems.internal(f"{why}, which is not supported for this operation")
        if found.patch_type != "JSONPatch":
            raise _failed(chosen.hook, f'unsupported patch type "{found.patch_type}"')
        model = chosen.served.model
        try:
            after = patched(before, operations)
            if not review.connected:
                after = model.default(model.decode(after).obj)
        except (PatchError, DecodeError) as error:
            raise problems.internal(str(error)) from None
        if deep_equal(before, after):
            return False
        if chosen.served is not review.served:
            after = await self._ports.equivalents.convert(after, chosen.served, review.served)
        review.obj = after
        return True


# ------------------------------------------------------------------ validating
class ValidatingWebhooks:
    """All at once; the first refusal wins.

    Args:
        hooks: as they are configured now.
    """

    def __init__(self, hooks: Callable[[], Sequence[Hook]], ports: Ports) -> None:
        self._hooks = hooks
        self._ports = ports
        self._caller = _Caller(ports, mutating=False)

    async def mutate(self, review: Review) -> None:
        """Nothing."""

    async def validate(self, review: Review) -> None:
        """See `Admission`; all are waited for, so that none goes on after the answer."""
        hooks = self._hooks()
        if not hooks or exempt(review.resource):
            return
        chooser = _Chooser(self._ports, review)
        chosen = [found for hook in hooks if (found := await chooser.choose(hook)) is not None]
        refusals: list[Exception] = []
        async with asyncio.TaskGroup() as group:
            for found in chosen:
                group.create_task(self._ask(review, found, refusals))
        if refusals:
            raise refusals[0]

    async def _ask(self, review: Review, chosen: _Chosen, refusals: list[Exception]) -> None:
        try:
            await self._caller.ask(review, chosen)
        except _FailedError as error:
            if not chosen.hook.ignore_failures:
                refusals.append(problems.internal(str(error)))
        except ApiError as error:
            refusals.append(error)
