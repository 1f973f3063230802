"""Issues and rotates the certificate of a webhook server, coordinated between its replicas."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic, utc_now
from opsdk.aio.named_sleep import named_sleep
from opsdk.aio.randomness import loop_random
from opsdk.api.core.v1 import Secret
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import to_dict
from opsdk.client.client import Client
from opsdk.errors import (
    AlreadyExistsError,
    ConfigError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    OpsdkError,
    UsageError,
)
from opsdk.telemetry.records import CertificateRead, TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger
from opsdk.webhook.certificates.bundle import SECRET_TYPE, CertificateBundle, bundle_from_secret, serving_fault
from opsdk.webhook.certificates.injection import trusted_certificates
from opsdk.webhook.certificates.issuing import CertificateKeyPair
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.certificates.rotation import (
    RENEW_ANNOTATION,
    Publication,
    RenewalRequest,
    RotationStep,
    advance,
    decide,
    fulfils,
    is_outdated,
    with_inherited,
)
from opsdk.webhook.certificates.serving import IssuedServingCertificate, pair_context
from opsdk.webhook.registered.comparison import RegisteredObject
from opsdk.webhook.registered.objects import RegisteredObjects

log = SafeLogger(__name__)

OWNED_LABEL = "opsdk.dev/webhook-certificates"
"""The label of the Secrets that a `CertificateManager` writes; it never changes or serves one without it."""
# Timeout in seconds of one check: a hanging request must not use up the overlap.
_CHECK_TIMEOUT = 30.0
# Spreads the reads of replicas that start at the same time.
_JITTER = 0.2
_MAX_EXPECTED_CONFLICTS = 5
_RETRY_BACKOFF = Backoff(base=0.5, cap=10.0, jitter=0.5)


class CertificateManager:
    """Keeps the certificate of a webhook server valid and trusted. A Runnable that runs on every replica.

    ::

        options = SelfSigned(service="website-webhook", namespace="demo")
        target = InjectionTarget(InjectionKind.VALIDATING, "website-validating")
        registered = RegisteredObjects(
            cluster.uncached,
            [RegisteredObject(target=target)],
            client_config=options.client_config(),
            new_cache=cluster.new_cache,
        )
        certificates = CertificateManager(cluster.uncached, options, registered=registered)
        server = WebhookServer()
        server.use_certificates(certificates.tls_context)
        manager.add(certificates)
        manager.add(registered)
        manager.add(server)
        manager.add_readyz_check("webhook-certificates", certificates.check_ready)
        manager.add_readyz_check("registered-objects", registered.check_ready)

    All replicas use one Secret. Each write has the resource version that was read, so one of two concurrent writers
    gets a conflict and reads again. `RegisteredObjects` sets each ``caBundle``.

    Args:
        client: reads and writes; it must not read from a cache.
        options: see `SelfSigned`; `namespace` must be set.
        registered: objects whose ``caBundle`` is set; default: those of ``options.inject``, without watches.
        client_ca_file: see `IssuedServingCertificate`.
        hook: receives a record of each certificate that is loaded; pass the manager's.
        namespace_source: where the namespace of `options` comes from, for messages.

    Raises:
        UsageError: `options` has no namespace.
    """

    def __init__(
        self,
        client: Client,
        options: SelfSigned,
        *,
        registered: RegisteredObjects | None = None,
        client_ca_file: Path | None = None,
        hook: TelemetryHook | None = None,
        namespace_source: str = "SelfSigned.namespace",
    ) -> None:
        if not options.namespace:
            raise UsageError("the Secret has no namespace: set SelfSigned.namespace")
        self.options = options
        if registered is None:
            injected = (RegisteredObject(target=target) for target in options.inject)
            registered = RegisteredObjects(client, injected, client_config=options.client_config())
        self.registered = registered
        """The objects that have the ``caBundle``."""
        registered.confirm = self._confirm
        self.bundle: CertificateBundle | None = None
        """The bundle of the last read of the Secret; None before."""
        self._client = client
        self._client_config = options.client_config()
        self._client_ca_file = client_ca_file
        self._namespace_source = namespace_source
        self._hook = hook or TelemetryHook()
        self._publication = Publication()
        self._serving: IssuedServingCertificate | None = None
        self._open: tuple[CertificateKeyPair, ssl.SSLContext] | None = None
        self._issued, self._ready = asyncio.Event(), asyncio.Event()
        self._read_at = 0.0
        self._failure = ""

    # -------------------------------------------------------------- life cycle
    def needs_leader_election(self) -> bool:
        """Return False: every replica serves, so every replica must know the certificate."""
        return False

    def webhook_paths(self) -> Sequence[str]:
        """Return no paths. The method makes the manager start this runnable with the webhook servers, before caches."""
        return ()

    async def start(self) -> None:
        """Check the Secret and the targets periodically, until cancelled.

        Raises:
            ForbiddenError: a permission is missing at the start; the message names verb, resource and object.
            ConfigError: the Secret exists at the start, and is not one that a `CertificateManager` wrote.
        """
        backoff = _RETRY_BACKOFF.start()
        while True:
            try:
                async with asyncio.timeout(_CHECK_TIMEOUT):
                    await self.check()
            except (OpsdkError, TimeoutError) as error:
                self._report(error, backoff.tries)
                await asyncio.sleep(min(backoff.next(monotonic()), self.options.check_interval))
                continue
            self._failure = ""
            self._ready.set()
            backoff.reset()
            seconds = self.options.check_interval * (1 - _JITTER * loop_random().random())
            await named_sleep(f"certificates {self.options.secret}", seconds)

    def _report(self, error: OpsdkError | TimeoutError, tries: int) -> None:
        """Log the failure of a check. Raise errors that no retry can repair, unless this replica is already serving."""
        if isinstance(error, ForbiddenError) and not self._ready.is_set():
            message = (
                f"{error.message}; webhook certificates need this permission. Their Secret {self.options.secret} is in "
                f"the namespace {self.options.namespace} ({self._namespace_source}): run with --namespace for another "
                "one, or apply the roles that opsdk generate rbac prints; see docs/webhooks.md"
            )
            raise ForbiddenError(message, details=error.details, request=error.request) from error
        if isinstance(error, ConfigError) and not self._ready.is_set():
            raise error
        before, self._failure = self._failure, str(error) or "the request timed out"
        if self._failure == before:
            return
        # Repeated conflicts mean that the API server rejects the caBundle, not that other replicas write.
        expected = isinstance(error, ConflictError | AlreadyExistsError) and tries < _MAX_EXPECTED_CONFLICTS
        level = logging.DEBUG if expected else logging.ERROR
        log.log(level, "cannot check the webhook certificates, will retry: %s", self._failure)

    async def wait_ready(self) -> None:
        """Return when a certificate is served that the ``caBundle`` of every existing target verifies."""
        await self._ready.wait()

    async def tls_context(self) -> ssl.SSLContext:
        """Return the TLS context for the webhook server; waits for the first certificate."""
        await self._issued.wait()
        assert self._serving is not None  # set before the event
        return self._serving.context

    def serving_context(self) -> ssl.SSLContext | None:
        """Return the TLS context of the present certificate for every client, or None before the first check.

        For other servers of the operator, such as the metrics. Call it for each connection.
        """
        if self.bundle is None:
            return None
        if self._open is None or self._open[0] != self.bundle.serving:
            self._open = self.bundle.serving, pair_context(self.bundle.serving, None)
        return self._open[1]

    async def check_ready(self) -> None:
        """Raise an error if this replica must not receive webhook calls, for ``Manager.add_readyz_check``.

        Raises:
            ConfigError: it has no certificate yet, the certificate is unusable, or others may have replaced its CA.
        """
        if self.bundle is None or not self._ready.is_set():
            raise ConfigError(f"no webhook certificate yet: {self._failure or 'the first check is running'}")
        now, age = utc_now(), monotonic() - self._read_at
        fault = serving_fault(self.bundle, self.options.server_names(), now)
        if not fault and is_outdated(self.bundle, self.options, now, age):
            fault = f"other replicas may have replaced the CA since this one read it {age:.0f} s ago"
        if fault:
            raise ConfigError(f"{fault}; {self._failure}" if self._failure else fault)

    # -------------------------------------------------------------- one check
    async def check(self) -> None:
        """Read the Secret, take the next rotation step, serve its certificate, and set each ``caBundle``.

        Cancellation is safe at every await: the next check continues, on any replica.

        Raises:
            ConflictError: another replica wrote at the same time; check again.
            ForbiddenError: a permission is missing; the message names it.
            ConfigError: the Secret belongs to another program.
        """
        began = monotonic()
        secret = await self._read_secret()
        bundle = usable_bundle(secret)
        step = decide(
            bundle,
            self.options,
            now=utc_now(),
            published_for=self._publication.seconds(bundle, began),
            request=requested_renewal(secret),
        )
        if step is not RotationStep.KEEP:
            bundle = await self._write(secret, bundle, step)
        assert bundle is not None  # the step without a bundle is CREATE
        try:
            await self._publish(bundle)
        except BaseException:  # a cancellation too leaves some caBundles unknown
            self._publication.interrupt()
            raise
        finally:
            # Serve it after the caBundles, which may not trust it yet, but also after a failed target.
            self._serve(bundle)
            self._read_at = began

    async def _read_secret(self) -> Secret | None:
        key = ObjectKey(self.options.namespace, self.options.secret)
        try:
            secret = await self._client.get(Secret, key, uncached=True)
        except NotFoundError:
            return None
        if OWNED_LABEL not in secret.metadata.labels:
            raise ConfigError(
                f"the Secret {key} lacks the label {OWNED_LABEL}, so another program uses it: choose another "
                "secret_name, or delete it"
            )
        return secret

    async def _write(
        self, secret: Secret | None, stored: CertificateBundle | None, step: RotationStep
    ) -> CertificateBundle:
        """Carry out a rotation step: write the Secret and return its certificates."""
        now, action = utc_now(), step.value
        if stored is None and self.bundle is not None and not serving_fault(self.bundle, (), now):
            # Other replicas also serve it, and each caBundle trusts it, so no call fails.
            bundle, action = self.bundle, "restore the certificate that this replica serves"
        else:
            bundle = advance(stored, step, self.options, now)
        if step is RotationStep.CREATE and bundle != self.bundle:
            objects = {
                target: await self._client.get_or_none(target.kind.kind, target.name, uncached=True)
                for target in self.registered.targets
            }
            trusted = (
                trusted_certificates(target, to_dict(obj), self._client_config)
                for target, obj in objects.items()
                if obj is not None
            )
            bundle = with_inherited(bundle, b"\n".join(trusted), now)
        meta = ObjectMeta(name=self.options.secret, namespace=self.options.namespace, labels={OWNED_LABEL: "issued"})
        written = Secret(metadata=meta, type=SECRET_TYPE) if secret is None else secret
        written.data = bundle.to_secret_data()
        if fulfils(step, requested_renewal(secret)):
            written.metadata.annotations.pop(RENEW_ANNOTATION, None)
        await (self._client.create(written) if secret is None else self._client.update(written))
        log.info("webhook certificates: %s (Secret %s)", action, self.options.secret)
        return bundle

    def _serve(self, bundle: CertificateBundle) -> None:
        if self._serving is None or self._serving.pair != bundle.serving:
            try:
                if self._serving is None:
                    self._serving = IssuedServingCertificate(bundle.serving, client_ca_file=self._client_ca_file)
                else:
                    self._serving.replace(bundle.serving)
            except ConfigError:
                self._hook.record(CertificateRead(failed=True))
                raise
            self._hook.record(CertificateRead(failed=False))
        self.bundle = bundle
        self._issued.set()

    async def _publish(self, bundle: CertificateBundle) -> None:
        """Set every ``caBundle``, continue after failures, then raise the first failure.

        While a CA is replaced, each object is read: a watch may be late.
        """
        is_rotating = bundle.next_authority is not None or bool(bundle.previous)
        self.registered.ca_bundle = bundle.trusted
        changed = await self.registered.restore_all(fresh=is_rotating or bundle != self.bundle)
        self._publication.observe(bundle, monotonic(), changed=changed)

    async def _confirm(self, ca_bundle: bytes) -> None:
        """Read the Secret after the object; the patch tests the values of that read.

        So a slow replica cannot replace the ``caBundle`` of a newer Secret with an older one.

        Raises:
            ConflictError: another replica changed the Secret.
        """
        stored = usable_bundle(await self._read_secret())
        if stored is None or stored.trusted != ca_bundle:
            raise ConflictError("the Secret was changed concurrently")

    # -------------------------------------------------------------- forced renewal
    async def renew(self, request: RenewalRequest = RenewalRequest.CA) -> None:
        """Request a renewal before its time, of the CA or of the serving certificate only.

        Returns when the request is stored in the Secret; any replica carries it out. ``kubectl annotate secret NAME
        opsdk.dev/renew=ca`` does the same. A request during a CA rotation waits for its end.

        Raises:
            NotFoundError: there is no Secret yet.
            ConflictError: another client changed the Secret; try again.
        """
        secret = await self._read_secret()
        if secret is None:
            raise NotFoundError(f"the Secret {self.options.namespace}/{self.options.secret} does not exist yet")
        secret.metadata.annotations[RENEW_ANNOTATION] = request.value
        await self._client.update(secret)

    def __repr__(self) -> str:
        return f"<CertificateManager of {self.options.namespace}/{self.options.secret}>"


def requested_renewal(secret: Secret | None) -> RenewalRequest:
    """Return the renewal that the annotation requests; an unknown value requests none."""
    value = secret.metadata.annotations.get(RENEW_ANNOTATION, "") if secret is not None else ""
    return next((request for request in RenewalRequest if request.value == value), RenewalRequest.NONE)


def usable_bundle(secret: Secret | None) -> CertificateBundle | None:
    """Return the bundle of the Secret; None if the Secret does not exist or is damaged."""
    if secret is None:
        return None
    try:
        return bundle_from_secret(secret.data)
    except ConfigError as error:
        log.error("the Secret %s is damaged and will be replaced: %s", secret.metadata.name, error)
        return None
