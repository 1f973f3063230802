"""Three replicas, one Secret, in virtual time: whatever happens when, what a ready replica serves can be verified."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from opsdk.aio.clock import utc_now
from opsdk.api.core.v1 import Secret
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ConfigError, ConflictError, ForbiddenError
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.records import CertificateRead
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.certificates.issuing import (
    create_authority,
    encoded_certificate,
)
from opsdk.webhook.certificates.manager import OWNED_LABEL, CertificateManager
from opsdk.webhook.certificates.rotation import RENEW_ANNOTATION, RenewalRequest
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService
from tests.webhook.certificate_world import (
    DAY,
    INJECTING,
    OPTIONS,
    TARGETS,
    Overtaken,
    Paused,
    RecordingHook,
    configuration,
    rotate,
    world,
)

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


# ------------------------------------------------------------------ agreement
async def test_replicas_that_start_together_share_one_certificate() -> None:
    """One replica creates the Secret, the others read it, and only our configurations get the caBundle."""
    async with world() as w:
        await asyncio.gather(*(r.manager.wait_ready() for r in w.replicas if r.manager))
        secret = await w.secret()
        assert {await r.served() for r in w.replicas} == {secret.data["tls.crt"]}
        assert secret.type == "kubernetes.io/tls"
        for target in TARGETS:
            obj = await w.cluster.uncached.get(target.kind.kind, target.name)
            bundles = [hook["clientConfig"].get("caBundle") for hook in obj["webhooks"]]
            encoded = base64.b64encode(secret.data["ca.crt"]).decode()
            assert bundles == [encoded, None, encoded]


@pytest.mark.slow
async def test_nothing_is_written_while_nothing_changes() -> None:
    """Dozens of checks are reads only."""
    async with world() as w:
        await w.run(60)
        assert await w.writes(900) == []


async def assert_rotations_survive_faults(seed: int, rotations: int) -> None:
    """Late, lost and failing requests, crashes at random times, and rotations."""
    async with world(seed, fault_rate=0.15, latency=3.0) as w:
        await w.run(120)
        for _ in range(rotations):
            await w.annotate(RenewalRequest.CA)
            for _ in range(12):
                await w.run(w.rng.uniform(5, 60))
                crashed = w.rng.choice(w.replicas)
                crashed.stop()
                await w.run(w.rng.uniform(0, 30))
                crashed.start()
        for replica in w.replicas:
            replica.link.fault_rate = 0.0
        await w.run(400)
        assert len(w.authorities) == rotations + 1
        assert w.checks > 500
        assert {await r.served() for r in w.replicas} == {(await w.secret()).data["tls.crt"]}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_what_is_served_verifies_at_any_time(seed: int) -> None:
    """Each served certificate verifies at any time, under any faults and late reads."""
    await assert_rotations_survive_faults(seed, 1)


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 102))
async def test_what_is_served_verifies_with_more_seeds(seed: int) -> None:
    """Each served certificate verifies at any time, for more seeds."""
    await assert_rotations_survive_faults(seed, 3)


async def assert_rotations_survive_crashes(numbers: Sequence[int]) -> None:
    """A replica dies before its Nth message; the others finish what it began, and it joins again."""
    async with world(latency=0.1) as w:
        await w.run(30)
        for position, number in enumerate(numbers):
            victim = w.replicas[number % 3]
            for replica in w.replicas:
                # The victim alone works until it dies.
                if replica is not victim:
                    replica.stop()
            victim.link.crash_after = number
            await rotate(w, 40)
            for replica in w.replicas:
                if replica.manager is None:
                    replica.start()
            await w.run(180)
            assert len(w.authorities) == position + 2
            assert {await r.served() for r in w.replicas} == {(await w.secret()).data["tls.crt"]}


@pytest.mark.slow
async def test_a_crash_during_a_rotation_does_no_harm() -> None:
    """After a crash during a rotation, another replica finishes the rotation."""
    await assert_rotations_survive_crashes((2, 5, 9, 13, 18))


@pytest.mark.slow
@pytest.mark.deep
async def test_a_crash_at_any_await_of_a_rotation_does_no_harm() -> None:
    """After a crash at any request of a rotation, another replica finishes the rotation."""
    await assert_rotations_survive_crashes(range(24))


@pytest.mark.slow
async def test_a_year_passes() -> None:
    """Certificates and CA are renewed by age, and each is good at all times."""
    options = replace(OPTIONS, ca_validity=400 * DAY, check_interval=DAY, overlap=3 * DAY)
    async with world(replicas=0) as w:
        for _ in range(3):
            w.add_replica(options)
        await w.run(340 * DAY)
        assert len(w.authorities) == 2
        assert w.checks > 1000


@pytest.mark.slow
async def test_a_replica_that_was_cut_off_is_not_ready_while_a_ca_is_replaced() -> None:
    """A replica that cannot read the Secret is not ready during a CA rotation, and joins when it can."""
    async with world() as w:
        await w.run(30)
        await w.annotate(RenewalRequest.CA)
        await w.run(30)
        lonely = w.replicas[0]
        lonely.link.cut = True
        await w.run(300)
        assert await lonely.served() is None
        assert lonely.manager is not None
        with pytest.raises(ConfigError, match=r"other replicas may have replaced the CA.*refused"):
            await lonely.manager.check_ready()
        lonely.link.cut = False
        await w.run(30)
        assert await lonely.served() == (await w.secret()).data["tls.crt"]


@pytest.mark.slow
async def test_a_replica_that_was_cut_off_in_quiet_times_stays_ready() -> None:
    """A replica that cannot read the Secret stays ready while no rotation is due."""
    async with world() as w:
        await w.run(30)
        for replica in w.replicas:
            replica.link.cut = True
        await w.run(600)
        assert None not in {await r.served() for r in w.replicas}


@pytest.mark.parametrize("place", ["read the target", "read the Secret again", "patch"])
async def test_a_slow_replica_does_not_bring_back_an_old_bundle(place: str) -> None:
    """A slow replica that meets a new CA between two requests starts again, and both CAs stay trusted."""
    async with world(replicas=0) as w:
        fast = CertificateManager(w.cluster.uncached, INJECTING)

        async def add_next_ca() -> None:
            await fast.check()
            await w.annotate(RenewalRequest.CA)
            await fast.check()
            assert len(await w.authorities_of(TARGETS[0])) == 2

        slow = CertificateManager(Paused(w, place, add_next_ca), INJECTING)
        with pytest.raises(ConflictError, match="changed concurrently"):
            await slow.check()
        for target in TARGETS:
            assert len(await w.authorities_of(target)) == 2
        await slow.check()
        assert slow.bundle == fast.bundle


# ------------------------------------------------------------------ other clients
async def test_a_damaged_or_deleted_secret_is_restored() -> None:
    """The replicas write what they serve, so that no caBundle changes and no call fails."""
    async with world() as w:
        await w.run(30)
        before = await w.secret()
        await w.cluster.uncached.delete(before)
        await w.run(30)
        assert (await w.secret()).data == before.data
        for entry in ("ca.crt", "ca.key", "tls.crt", "tls.key"):
            damaged = await w.secret()
            damaged.data[entry] = b"junk"
            await w.cluster.uncached.update(damaged)
            await w.run(30)
            assert (await w.secret()).data["ca.crt"] == before.data["ca.crt"]
        assert len(w.authorities) == 1


@pytest.mark.slow
async def test_a_replica_that_starts_without_a_secret_lets_the_others_serve_on() -> None:
    """A replica that finds no Secret makes a new CA; the old one stays trusted until all use the new one."""
    async with world() as w:
        await w.run(30)
        w.lag = 0.0
        before = await w.secret()
        await w.cluster.uncached.delete(before)
        w.bundles.clear()
        w.add_replica(latency=0.0)
        await w.run(20)
        after = await w.secret()
        assert before.data["ca.crt"] in after.data["ca.crt"] != before.data["ca.crt"]
        await w.run(120)
        assert len(w.authorities) == 2
        assert len(await w.authorities_of(TARGETS[0])) == 1
        assert {await r.served() for r in w.replicas} == {after.data["tls.crt"]}


async def test_the_ca_of_another_issuer_stays_trusted_for_an_overlap() -> None:
    """A rolling update replaces replicas with files of cert-manager."""
    async with world(replicas=0) as w:
        w.lag = 0.0
        theirs = create_authority(utc_now(), 1e6).cert
        await w.set_ca_bundle(TARGETS[0], theirs)
        w.add_replica()
        await w.run(30)
        assert next(encoded_certificate(a) for a in await w.authorities_of(TARGETS[1])) == theirs
        await w.run(120)
        for target in TARGETS:
            (own,) = await w.authorities_of(target)
            assert encoded_certificate(own) != theirs


async def test_a_damaged_secret_is_replaced_when_no_replica_remembers_it() -> None:
    """A damaged Secret is replaced, and its content is never served."""
    async with world(replicas=0) as w:
        meta = ObjectMeta(name="hooks-tls", namespace="default", labels={OWNED_LABEL: "issued"})
        junk = {"tls.crt": b"junk", "tls.key": b"junk"}
        await w.cluster.uncached.create(Secret(metadata=meta, type="kubernetes.io/tls", data=junk))
        replica = w.add_replica()
        await w.run(30)
        assert await replica.served() == (await w.secret()).data["tls.crt"] != b"junk"


async def test_a_secret_of_another_program_is_refused() -> None:
    """A Secret without our label is neither served nor changed, and the error says what to do."""
    async with world(replicas=0) as w:
        meta = ObjectMeta(name="hooks-tls", namespace="default")
        await w.cluster.uncached.create(Secret(metadata=meta, data={"password": b"a"}))
        with pytest.raises(ConfigError, match=r"default/hooks-tls lacks the label .* choose another secret_name"):
            await CertificateManager(w.cluster.uncached, OPTIONS).start()
        assert (await w.secret()).data == {"password": b"a"}


async def test_a_secret_that_another_program_takes_later_is_not_served() -> None:
    """The replicas go on with the certificate that they have, and say why."""
    async with world() as w:
        await w.run(30)
        before = await w.replicas[0].served()
        secret = await w.secret()
        secret.metadata.labels, secret.data = {}, {"tls.crt": b"theirs", "tls.key": b"theirs"}
        await w.cluster.uncached.update(secret)
        await w.run(120)
        assert await w.replicas[0].served() == before
        assert (await w.secret()).data["tls.crt"] == b"theirs"


async def test_drift_of_a_ca_bundle_is_repaired() -> None:
    """Within one interval; the webhooks of others keep their caBundle."""
    async with world() as w:
        await w.run(30)
        target = TARGETS[0]
        bundle = (await w.secret()).data["ca.crt"]
        w.bundles.clear()
        await w.set_ca_bundle(target, bundle * 2)
        ours, theirs = base64.b64encode(bundle).decode(), base64.b64encode(bundle * 2).decode()
        writes = await w.writes(OPTIONS.check_interval + 2)
        assert len(writes) >= 1
        obj = await w.cluster.uncached.get(target.kind.kind, target.name)
        assert [hook["clientConfig"]["caBundle"] for hook in obj["webhooks"]] == [ours, theirs, ours]


async def test_a_configuration_may_come_later() -> None:
    """Replicas are ready without it, and set its caBundle when it exists."""
    async with world() as w:
        target = TARGETS[1]
        await w.cluster.uncached.delete(target.kind.kind, target.name)
        await w.run(30)
        assert None not in {await r.served() for r in w.replicas}
        await w.cluster.uncached.create(configuration(target, "hooks"))
        await w.run(OPTIONS.check_interval + 2)
        obj = await w.cluster.uncached.get(target.kind.kind, target.name)
        assert obj["webhooks"][0]["clientConfig"]["caBundle"]


async def test_a_request_for_a_serving_certificate_keeps_the_ca() -> None:
    """A request for a serving certificate keeps the CA and is handled once."""
    async with world() as w:
        await w.run(30)
        before = await w.secret()
        assert w.replicas[0].manager is not None
        await w.replicas[0].manager.renew(RenewalRequest.SERVING)
        await w.run(30)
        after = await w.secret()
        assert after.data["tls.crt"] != before.data["tls.crt"]
        assert after.data["ca.crt"] == before.data["ca.crt"]
        assert after.metadata.annotations == {}


@pytest.mark.slow
async def test_a_request_for_a_ca_waits_for_the_end_of_a_rotation() -> None:
    """A request for a CA during a rotation is handled after it."""
    async with world() as w:
        await w.run(30)
        await w.annotate(RenewalRequest.CA)
        await w.run(20)
        await w.annotate(RenewalRequest.CA)
        await w.run(100)
        assert (await w.secret()).metadata.annotations == {RENEW_ANNOTATION: "ca"}
        assert len(w.authorities) == 2
        await w.run(300)
        assert (await w.secret()).metadata.annotations == {}
        assert len(w.authorities) == 3


class Refusing(Client):
    """A client that may not patch one of the objects."""

    async def patch(self, obj: Any, *args: Any, **options: Any) -> Any:
        if obj.metadata.name == TARGETS[0].name:
            raise ForbiddenError("no")
        return await super().patch(obj, *args, **options)


async def test_a_target_that_fails_does_not_keep_back_the_others() -> None:
    """If one target fails, the others get their caBundle, the check fails, and no rotation continues."""
    async with world(replicas=0) as w:
        manager = CertificateManager(Refusing(w.cluster.uncached.executor), INJECTING)
        for _ in range(2):
            with pytest.raises(ForbiddenError):
                await manager.check()
        assert len(await w.authorities_of(TARGETS[1])) == 1
        await w.annotate(RenewalRequest.CA)
        for _ in range(3):
            await asyncio.sleep(2 * OPTIONS.overlap)
            with pytest.raises(ForbiddenError):
                await manager.check()
        assert manager.bundle is not None
        assert manager.bundle.next_authority is not None


async def test_each_certificate_is_recorded() -> None:
    """Metrics count what is loaded, not what is checked."""
    hook = RecordingHook()
    async with world(replicas=0) as w:
        manager = CertificateManager(w.cluster.uncached, INJECTING, hook=hook)
        for _ in range(3):
            await manager.check()
        assert hook.records == [CertificateRead(failed=False)]
        await w.annotate(RenewalRequest.SERVING)
        await manager.check()
        assert len(hook.records) == 2


# ------------------------------------------------------------------ other targets and errors
def extension_objects() -> list[JsonObject]:
    """A definition with a conversion by a webhook, and an APIService."""
    version = {"served": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    config = WebhookClientConfig(service=WebhookService(name="hooks", namespace="default")).tree("/convert")
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "books.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "books", "singular": "book", "kind": "Book", "listKind": "BookList"},
                "versions": [{"name": "v1", "storage": True, **version}, {"name": "v2", "storage": False, **version}],
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
                },
            },
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1.shelves.example.com"},
            "spec": {
                "group": "shelves.example.com",
                "version": "v1",
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
                "service": {"name": "hooks", "namespace": "default"},
            },
        },
    ]


async def test_definitions_and_api_services_get_the_ca() -> None:
    """Injection changes only the caBundle of definitions and APIServices."""
    inject = (
        InjectionTarget(InjectionKind.CONVERSION, "books.example.com"),
        InjectionTarget(InjectionKind.API_SERVICE, "v1.shelves.example.com"),
    )
    async with world(replicas=0) as w:
        for tree in extension_objects():
            meta = ObjectMeta(name=tree["metadata"]["name"])
            await w.cluster.uncached.create(
                Unstructured(tree["apiVersion"], tree["kind"], meta, {"spec": tree["spec"]})
            )
        w.add_replica(replace(OPTIONS, inject=inject))
        await w.run(30)
        encoded = base64.b64encode((await w.secret()).data["ca.crt"]).decode()
        book = await w.cluster.uncached.get(inject[0].kind.kind, inject[0].name)
        assert book["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == encoded
        shelf = await w.cluster.uncached.get(
            unstructured_kind("apiregistration.k8s.io/v1", "APIService"), inject[1].name
        )
        assert shelf["spec"]["caBundle"] == encoded
        assert shelf["spec"]["groupPriorityMinimum"] == 1000


@pytest.mark.parametrize("verb", ["get", "create"])
async def test_a_missing_right_ends_the_start_in_words(verb: str) -> None:
    """The error is typed, and names verb, resource and object."""
    rules = [] if verb == "get" else [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    async with environment.Environment() as env, Cluster(env.config) as admin:
        user = env.add_user("operator")
        role = Unstructured("rbac.authorization.k8s.io/v1", "Role", ObjectMeta(name="r", namespace="default"))
        role["rules"] = rules
        await admin.uncached.create(role)
        binding = Unstructured("rbac.authorization.k8s.io/v1", "RoleBinding", ObjectMeta(name="r", namespace="default"))
        binding["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
        binding["subjects"] = [{"kind": "User", "name": "operator", "apiGroup": "rbac.authorization.k8s.io"}]
        await admin.uncached.create(binding)
        async with Cluster(user.config) as cluster:
            with pytest.raises(ForbiddenError) as refused:
                await CertificateManager(cluster.uncached, OPTIONS).start()
        text = str(refused.value)
        assert f"{verb} secrets default/hooks-tls: 403 Forbidden" in text
        assert (
            "webhook certificates need this permission. Their Secret hooks-tls is in the namespace default "
            "(SelfSigned.namespace): run with --namespace for another one, or apply the roles that opsdk generate rbac "
            "prints; see docs/webhooks.md"
        ) in text


async def test_a_check_raises_the_conflict() -> None:
    """`check` does not hide it: `start` checks again."""
    async with world(replicas=1) as w:
        await w.run(30)
        (replica,) = w.replicas
        assert replica.manager is not None
        await w.annotate(RenewalRequest.SERVING)
        replica.stop()
        manager = CertificateManager(Overtaken(w), OPTIONS)
        with pytest.raises(ConflictError):
            await manager.check()
