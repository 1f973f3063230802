"""Names: most kinds need DNS subdomains, some accept any path segment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.envtest.groups.kindkit import row_of
from tests.envtest.groups.trees import known

LOOSE = (
    "policy/poddisruptionbudgets",
    "/events",
    "events.k8s.io/events",
    "certificates.k8s.io/certificatesigningrequests",
    "rbac.authorization.k8s.io/roles",
    "rbac.authorization.k8s.io/clusterrolebindings",
    "storage.k8s.io/csidrivers",
)
STRICT = (
    "networking.k8s.io/ingresses",
    "autoscaling/horizontalpodautoscalers",
    "storage.k8s.io/storageclasses",
    "coordination.k8s.io/leases",
    "discovery.k8s.io/endpointslices",
    "admissionregistration.k8s.io/validatingadmissionpolicies",
)


@pytest.mark.parametrize("resource", LOOSE)
@given(name=st.text(min_size=1).filter(lambda text: text not in (".", "..")))
def test_path_segment_names_allow_all_but_slash_and_percent(resource: str, name: str) -> None:
    """A path segment name allows every character but slash and percent."""
    strategy = known().strategy(row_of(resource), has_status=True)
    assert bool(strategy.name_rule(name)) == bool({"/", "%"} & set(name))


@pytest.mark.parametrize("resource", STRICT)
@pytest.mark.parametrize("name", ["Upper", "with_line", "with space", "-a", "a:b"])
def test_strict_names(resource: str, name: str) -> None:
    """Lower-case labels with dots between."""
    strategy = known().strategy(row_of(resource), has_status=True)
    assert strategy.name_rule(name)
    assert not strategy.name_rule("a.b-c")
