"""Rotation as a pure function: whatever the times, each certificate is trusted before, while and after it serves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.webhook.certificates.bundle import CertificateBundle, bundle_from_secret, serving_fault
from opsdk.webhook.certificates.issuing import CertificateKeyPair, load_certificate, load_certificates, names_of
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.certificates.rotation import (
    Publication,
    RenewalRequest,
    RotationStep,
    advance,
    decide,
    is_outdated,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = SelfSigned(
    service="hooks", namespace="demo", validity=4000, renew_before=1000, ca_validity=10_000, overlap=100
)
NAMES = OPTIONS.server_names()


def first() -> CertificateBundle:
    """A bundle that begins now."""
    return advance(None, RotationStep.CREATE, OPTIONS, NOW)


def later(seconds: float) -> datetime:
    """A time after the first bundle."""
    return NOW + timedelta(seconds=seconds)


@dataclass
class History:
    """One replica's rotation, with the times of each step.

    Attributes:
        now: seconds since the start.
        trusted_since: when each CA was first published.
        served_until: when each CA ceased to sign.
        dropped: CAs that are not trusted any more.
    """

    bundle: CertificateBundle = field(default_factory=first)
    now: float = 0.0
    publication: Publication = field(default_factory=Publication)
    trusted_since: dict[bytes, float] = field(default_factory=dict)
    served_until: dict[bytes, float] = field(default_factory=dict)
    dropped: set[bytes] = field(default_factory=set)

    def step(self, seconds: float, request: RenewalRequest, *, published: bool) -> RotationStep:
        """Let time pass, decide, and check the laws of the transition."""
        self.now += seconds
        before, wall = self.bundle, later(self.now)
        published_for = self.publication.seconds(before, self.now)
        step = decide(before, OPTIONS, now=wall, published_for=published_for, request=request)
        self.bundle = after = advance(before, step, OPTIONS, wall)
        assert serving_fault(after, NAMES, wall) == "", step
        self._check_transition(before, after, step)
        if published:
            self.publication.observe(after, self.now, changed=False)
            for authority in load_certificates(after.trusted):
                self.trusted_since.setdefault(authority.tbs_certificate_bytes, self.now)
        else:
            self.publication.interrupt()
        return step

    def _check_transition(self, before: CertificateBundle, after: CertificateBundle, step: RotationStep) -> None:
        old, new = ([c.tbs_certificate_bytes for c in load_certificates(bundle.trusted)] for bundle in (before, after))
        assert not self.dropped & set(new), "a CA that was dropped never returns"
        self.dropped |= set(old) - set(new)
        assert old[len(set(old) - set(new)) :] == new[: len(set(old) & set(new))], "oldest first"
        if step is RotationStep.CREATE:
            self.dropped |= set(old)
            return
        if before.authority != after.authority:
            signer = load_certificate(after.authority.cert).tbs_certificate_bytes
            expired = later(self.now) >= load_certificate(before.authority.cert).not_valid_after_utc
            assert expired or self.now - self.trusted_since[signer] >= OPTIONS.overlap, "published before it signs"
            self.served_until[load_certificate(before.authority.cert).tbs_certificate_bytes] = self.now
        for authority in set(old) - set(new):
            assert self.now - self.served_until[authority] >= OPTIONS.overlap, "trusted after it was served"


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0, 10.0, 99.0, 100.0, 150.0, 700.0, 2500.0, 6000.0, 20_000.0]),
        st.sampled_from([*[RenewalRequest.NONE] * 4, RenewalRequest.SERVING, RenewalRequest.CA]),
        st.sampled_from([True, True, True, False]),
    ),
    max_size=40,
)


@pytest.mark.slow
@given(STEPS)
def test_a_ca_is_trusted_before_it_signs_and_after_it_served(steps: list[tuple[float, RenewalRequest, bool]]) -> None:
    """At any times, requests and interruptions, every served certificate can be verified."""
    history = History()
    for seconds, request, published in steps:
        history.step(seconds, request, published=published)
        assert bundle_from_secret(history.bundle.to_secret_data()) == history.bundle


@given(st.lists(st.sampled_from([1.0, 10.0, 60.0, 120.0, 300.0, 700.0]), min_size=1, max_size=60))
def test_frequent_checks_never_begin_anew(pauses: list[float]) -> None:
    """With pauses below `renew_before`, a CA is never created out of turn, and none expires while it signs."""
    history = History()
    for seconds in pauses:
        assert history.step(seconds, RenewalRequest.NONE, published=True) is not RotationStep.CREATE


def run(history: History, seconds: float, *, pause: float = 50.0) -> list[RotationStep]:
    """The steps of some time, without those that keep."""
    count = round(seconds / pause)
    steps = [history.step(pause, RenewalRequest.NONE, published=True) for _ in range(count)]
    return [step for step in steps if step is not RotationStep.KEEP]


def test_a_life_of_a_ca() -> None:
    """A serving certificate is renewed, then the CA is replaced in three steps."""
    history = History()
    issue, add = RotationStep.ISSUE_SERVING, RotationStep.ADD_NEXT_CA
    assert run(history, 7000) == [issue, add, issue, RotationStep.SWITCH_CA, RotationStep.DROP_OLD_CA]
    assert not history.bundle.previous
    assert history.bundle.next_authority is None


def test_a_rotation_waits_for_the_overlap() -> None:
    """Each step needs the whole overlap, counted anew when a caBundle was lost."""
    history = History()
    none, ca = RenewalRequest.NONE, RenewalRequest.CA
    assert history.step(1, ca, published=True) is RotationStep.ADD_NEXT_CA
    assert history.step(99, none, published=True) is RotationStep.KEEP
    assert history.step(1, none, published=False) is RotationStep.SWITCH_CA
    assert history.step(500, none, published=True) is RotationStep.KEEP
    assert history.step(99, ca, published=True) is RotationStep.KEEP, "a request waits for the end of the rotation"
    assert history.step(1, none, published=True) is RotationStep.DROP_OLD_CA
    assert history.step(0, ca, published=True) is RotationStep.ADD_NEXT_CA


def test_a_serving_certificate_that_is_unusable_is_issued_anew() -> None:
    """An unusable serving certificate is issued again by the same CA; extra names are accepted."""
    bundle = first()
    damaged = replace(bundle, serving=CertificateKeyPair(b"junk", b"junk"))
    assert decide(damaged, OPTIONS, now=NOW, published_for=None) is RotationStep.ISSUE_SERVING
    repaired = advance(damaged, RotationStep.ISSUE_SERVING, OPTIONS, NOW)
    assert repaired.trusted == bundle.trusted
    assert decide(repaired, OPTIONS, now=NOW, published_for=None) is RotationStep.KEEP
    fewer = replace(OPTIONS, dns_names=())
    more = replace(OPTIONS, dns_names=("extra",))
    assert decide(repaired, more, now=NOW, published_for=None) is RotationStep.ISSUE_SERVING
    extended = advance(repaired, RotationStep.ISSUE_SERVING, more, NOW)
    assert decide(extended, fewer, now=NOW, published_for=None) is RotationStep.KEEP


def test_replicas_that_want_different_names_agree() -> None:
    """During an update each adds its names; none removes those of another one."""
    one, two = (replace(OPTIONS, dns_names=(name,)) for name in ("one", "two"))
    bundle = advance(None, RotationStep.CREATE, one, NOW)
    bundle = advance(bundle, RotationStep.ISSUE_SERVING, two, NOW)
    assert {"one", "two"} <= names_of(load_certificate(bundle.serving.cert))
    for options in (one, two):
        assert decide(bundle, options, now=NOW, published_for=None) is RotationStep.KEEP


def test_a_certificate_of_a_dropped_ca_is_replaced_before_the_drop() -> None:
    """If another client wrote an old certificate back, the old CA stays until a new one is issued."""
    history = History()
    old = history.bundle.serving
    bundle = advance(history.bundle, RotationStep.ADD_NEXT_CA, OPTIONS, NOW)
    bundle = replace(advance(bundle, RotationStep.SWITCH_CA, OPTIONS, NOW), serving=old)
    assert decide(bundle, OPTIONS, now=NOW, published_for=1000) is RotationStep.ISSUE_SERVING


def test_an_expired_ca_is_replaced_without_delay() -> None:
    """An expired CA is replaced at once by the next CA, or by a new one."""
    late = later(10_000)
    assert decide(first(), OPTIONS, now=late, published_for=1e6) is RotationStep.CREATE
    added = advance(first(), RotationStep.ADD_NEXT_CA, OPTIONS, later(9000))
    assert decide(added, OPTIONS, now=late, published_for=None) is RotationStep.SWITCH_CA
    assert decide(None, OPTIONS, now=NOW, published_for=None) is RotationStep.CREATE


@pytest.mark.parametrize(("seconds", "age", "outdated"), [(0, 1e6, False), (7000, 49, False), (7000, 51, True)])
def test_a_replica_that_cannot_read_knows_when_others_may_rotate(seconds: float, age: float, *, outdated: bool) -> None:
    """An old read is outdated only if a CA is due or is being replaced."""
    assert is_outdated(first(), OPTIONS, later(seconds), age) is outdated
    added = advance(first(), RotationStep.ADD_NEXT_CA, OPTIONS, NOW)
    assert is_outdated(added, OPTIONS, later(seconds), age) is (age > 50)
