"""The two webhook plugins: mutating webhooks run in order, validating webhooks run in parallel.

Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go, validating/dispatcher.go (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from opsdk.aio.clock import loop_time
from opsdk.aio.randomness import loop_uuid4
from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.matching import exempt, selects_object
from opsdk.apiserver.admission.plugin import Plugin
from opsdk.apiserver.admission.reinvocation import Reinvocation
from opsdk.apiserver.admission.versioned_attributes import (
    Equivalents,
    GetNamespace,
    VersionedAttributes,
    VersionedAttributesAccessor,
)
from opsdk.apiserver.admission.webhooks.admission_review import (
    KNOWN_VERSIONS,
    AdmissionReviewError,
    WebhookResponse,
    create_admission_review,
    parse_patch,
    parse_response,
    patched,
    rejection,
    verify_admission_response,
)
from opsdk.apiserver.admission.webhooks.configuration import WebhookAccessor
from opsdk.apiserver.metrics import AdmissionMetrics
from opsdk.apiserver.resources import InstalledResource
from opsdk.apiserver.webhook_client.client import WebhookCallError, WebhookClient
from opsdk.apiserver.webhook_client.endpoint import ClientConfigError
from opsdk.errors import ApiError, DecodeError, PatchError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.value import JsonObject

Evaluate = Callable[[Attributes, VersionedAttributes, Sequence[JsonObject]], Awaitable[Sequence[bool | str]]]
"""Returns for each match condition true, false, or an error message."""


class WebhookDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the server that both webhook plugins use. `metrics` get the latencies of the webhooks."""

    client: WebhookClient
    equivalents: Equivalents
    namespace: GetNamespace
    evaluate: Evaluate | None = None
    metrics: AdmissionMetrics = msgspec.field(default_factory=AdmissionMetrics)


class _FailedError(Exception):
    """A webhook could not be called; its failure policy decides."""


class _WebhookInvocation(msgspec.Struct):
    """A webhook that matches a request, and the version in which it receives the objects."""

    hook: WebhookAccessor
    served: InstalledResource
    versioned: VersionedAttributes


class _Chooser:
    """Matches webhooks with one request."""

    def __init__(self, ports: WebhookDependencies, attributes: Attributes) -> None:
        self._ports = ports
        self._review = attributes
        self._views = VersionedAttributesAccessor(attributes, ports.equivalents, ports.namespace)

    async def choose(self, hook: WebhookAccessor) -> _WebhookInvocation | None:
        """Return None if the webhook does not match. Raises `ApiError` if matching fails."""
        if not selects_object(hook.objects, self._review):
            return None
        served = self._views.matched_resource(hook.rules, equivalent=hook.equivalent)
        if served is None or not self._views.selects_namespace(hook.namespaces):
            return None
        versioned = await self._views.versioned_attributes(served)
        if hook.conditions and not await self._match_conditions_hold(hook, versioned):
            return None
        return _WebhookInvocation(hook, served, versioned)

    async def _match_conditions_hold(self, hook: WebhookAccessor, versioned: VersionedAttributes) -> bool:
        """Report whether all conditions hold. A false condition takes precedence over errors of other conditions."""
        evaluate, review = self._ports.evaluate, self._review
        if evaluate is None:
            return True
        verdict = await evaluate(review, versioned, hook.conditions)
        if any(outcome is False for outcome in verdict):
            return False
        wrong = [outcome for outcome in verdict if isinstance(outcome, str)]
        if wrong and not hook.ignore_failures:
            text = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
            raise api_errors.forbidden(review.served.info, review.name, text)
        return not wrong


class _Caller:
    """Calls webhooks of one type."""

    def __init__(self, ports: WebhookDependencies, *, mutating: bool) -> None:
        self._client = ports.client
        self._metrics = ports.metrics
        self._mutating = mutating

    async def call_hook(self, attributes: Attributes, invocation: _WebhookInvocation) -> WebhookResponse:
        """Return the response; a denial is an `ApiError`. Raises `_FailedError` if the call failed."""
        hook = invocation.hook
        if attributes.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise api_errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        clock = loop_time()
        began, rejected = clock(), True
        try:
            answer = await self._send_review(attributes, invocation)
            rejected = not answer.allowed
        except _FailedError:
            rejected = not hook.ignore_failures
            raise
        finally:
            step = "admit" if self._mutating else "validating"
            self._metrics.observe_webhook(clock() - began, hook.name, step, attributes.operation, rejected=rejected)
        for text in answer.warnings:
            attributes.warn(text)
        if not answer.allowed:
            raise rejection(hook.name, answer.status)
        return answer

    async def _send_review(self, attributes: Attributes, invocation: _WebhookInvocation) -> WebhookResponse:
        """Call a webhook with the review, and return its verified response. Raises what its failure policy judges."""
        hook = invocation.hook
        version = next((v for v in hook.versions if v in KNOWN_VERSIONS), "")
        if not version:
            versions = ", ".join(KNOWN_VERSIONS)
            reason = f"webhook does not accept known AdmissionReview versions ({versions})"
            raise _failed(hook, f"could not create admission objects: {reason}")
        uid = loop_uuid4()
        try:
            target = hook.target()
            answer = await self._client.post(
                target,
                create_admission_review(attributes, invocation.versioned, uid=uid, version=version),
                timeout=hook.timeout,
            )
        except ClientConfigError as error:
            raise _failed(hook, f"could not get REST client: {error}") from None
        except WebhookCallError as error:
            raise _failed(hook, f"failed to call webhook: {error}") from None
        try:
            response = parse_response(answer, version)
        except AdmissionReviewError as error:
            raise _failed(hook, f"failed to call webhook: {error}") from None
        try:
            return verify_admission_response(answer, response, uid=uid, version=version, mutating=self._mutating)
        except AdmissionReviewError as error:
            raise _failed(hook, f"received invalid webhook response: {error}") from None


def _failed(hook: WebhookAccessor, message: str) -> _FailedError:
    return _FailedError(f'failed calling webhook "{hook.name}": {message}')


# ------------------------------------------------------------------ mutating
class MutatingWebhooks(Plugin):
    """The MutatingAdmissionWebhook plugin: it calls the webhooks one after another, each with the current object.

    Args:
        hooks: returns the currently configured webhooks in calling order.
    """

    def __init__(self, hooks: Callable[[], Sequence[WebhookAccessor]], ports: WebhookDependencies) -> None:
        self._hooks = hooks
        self._ports = ports
        self._caller = _Caller(ports, mutating=True)

    async def mutate(self, attributes: Attributes) -> None:
        hooks = self._hooks()
        if not hooks or exempt(attributes.resource):
            return
        rounds = Reinvocation.of(attributes, "MutatingAdmissionWebhook")
        chooser = _Chooser(self._ports, attributes)
        for hook in hooks:
            if attributes.is_reinvoke and hook.uid not in rounds.to_reinvoke:
                continue
            chosen = await chooser.choose(hook)
            if chosen is None:
                continue
            try:
                answer = await self._caller.call_hook(attributes, chosen)
                if answer.patch and await self._apply_patch(attributes, chosen, answer):
                    rounds.changed()
                    attributes.reinvoke = True
            except _FailedError as error:
                if not hook.ignore_failures:
                    raise api_errors.internal(str(error)) from None
            if hook.reinvoke:
                rounds.previously_invoked.add(hook.uid)
        rounds.last_output = attributes.obj

    async def _apply_patch(
        self, attributes: Attributes, invocation: _WebhookInvocation, response: WebhookResponse
    ) -> bool:
        """Apply the webhook's patch, and report whether it changed the object."""
        name, before = invocation.hook.name, invocation.versioned.obj
        try:
            operations = parse_patch(response.patch)
        except PatchError as error:
            reason = f"received undecodable patch in webhook response: {error}"
            raise _failed(invocation.hook, reason) from None
        if not operations:
            return False
        if before is None:
            reason = f'admission webhook "{name}" attempted to modify the object'
            raise api_errors.internal(f"{reason}, which is not supported for this operation")
        if response.patch_type != "JSONPatch":
            raise _failed(invocation.hook, f'unsupported patch type "{response.patch_type}"')
        model = invocation.served.model
        try:
            after = patched(before, operations)
            if not attributes.connected:
                after = model.default(model.decode(after).obj, nulls=True)
        except (PatchError, DecodeError) as error:
            raise api_errors.internal(str(error)) from None
        if deep_equal(before, after):
            return False
        if invocation.served is not attributes.served:
            after = await self._ports.equivalents.convert(after, invocation.served, attributes.served)
        attributes.obj = after
        return True


# ------------------------------------------------------------------ validating
class ValidatingWebhooks(Plugin):
    """The ValidatingAdmissionWebhook plugin: it calls all webhooks concurrently, and the first denial wins.

    Args:
        hooks: returns the currently configured webhooks.
    """

    def __init__(self, hooks: Callable[[], Sequence[WebhookAccessor]], ports: WebhookDependencies) -> None:
        self._hooks = hooks
        self._ports = ports
        self._caller = _Caller(ports, mutating=False)

    async def validate(self, attributes: Attributes) -> None:
        """See `AdmissionInterface`; it waits for all calls, so that none outlives the response."""
        hooks = self._hooks()
        if not hooks or exempt(attributes.resource):
            return
        chooser = _Chooser(self._ports, attributes)
        chosen = [invocation for hook in hooks if (invocation := await chooser.choose(hook)) is not None]
        refusals: list[Exception] = []
        async with asyncio.TaskGroup() as group:
            for invocation in chosen:
                group.create_task(self._collect_refusal(attributes, invocation, refusals))
        if refusals:
            raise refusals[0]

    async def _collect_refusal(
        self, attributes: Attributes, invocation: _WebhookInvocation, refusals: list[Exception]
    ) -> None:
        try:
            await self._caller.call_hook(attributes, invocation)
        except _FailedError as error:
            if not invocation.hook.ignore_failures:
                refusals.append(api_errors.internal(str(error)))
        except ApiError as error:
            refusals.append(error)
