"""The caBundle of objects that call a webhook server: set where it is ours, and nothing else is touched."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.patch.json_patch import apply_json_patch
from opsdk.errors import PatchError
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget, client_configs, injection_patch
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService

SERVICE = WebhookClientConfig(service=WebhookService(name="hooks", namespace="demo"))
URL = WebhookClientConfig(url="https://10.0.0.1:9443/")
CONFIGURATION = InjectionTarget(InjectionKind.VALIDATING, "a")
DEFINITION = InjectionTarget(InjectionKind.CONVERSION, "books.example.com")
API_SERVICE = InjectionTarget(InjectionKind.API_SERVICE, "v1.example.com")
PEM, ENCODED = b"PEM", base64.b64encode(b"PEM").decode()

CLIENT_CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "service": st.fixed_dictionaries(
            {"name": st.sampled_from(["hooks", "other"]), "namespace": st.sampled_from(["demo", "default"])},
            optional={"port": st.just(443), "path": st.sampled_from(["/", "/a"])},
        ),
        "url": st.sampled_from(["https://10.0.0.1:9443", "https://10.0.0.1:9443/a", "https://10.0.0.1:94439/a"]),
        "caBundle": st.sampled_from(["", ENCODED, "b2xk"]),
    },
)
WEBHOOKS = st.lists(st.fixed_dictionaries({"name": st.just("a"), "clientConfig": CLIENT_CONFIGS}), max_size=4)


@given(WEBHOOKS, st.sampled_from([SERVICE, URL]))
def test_only_the_ca_bundles_of_our_webhooks_change(webhooks: list[JsonObject], server: WebhookClientConfig) -> None:
    """Afterwards each of ours has the CAs, everything else is as before, and nothing is left to do."""
    tree: JsonObject = {"metadata": {"name": "a"}, "webhooks": webhooks}
    patched = apply_json_patch(deepcopy(tree), injection_patch(CONFIGURATION, tree, server, PEM))
    ours = {pointer for pointer, _ in client_configs(CONFIGURATION, tree, server)}
    for number, (before, after) in enumerate(zip(webhooks, patched["webhooks"], strict=True)):
        if f"/webhooks/{number}/clientConfig" in ours:
            assert after == {**before, "clientConfig": {**before["clientConfig"], "caBundle": ENCODED}}
        else:
            assert after == before
    assert injection_patch(CONFIGURATION, patched, server, PEM) == []


@pytest.mark.parametrize(
    "change",
    [{"caBundle": "b2xk"}, {"service": {"name": "hooks", "namespace": "demo", "path": "/new"}}, {"url": "https://x"}],
)
def test_a_patch_fails_if_the_client_config_changed(change: JsonObject) -> None:
    """An injection patch fails if the client config changed meanwhile, also if a caBundle appeared."""
    tree: JsonObject = {"webhooks": [{"clientConfig": {"service": {"name": "hooks", "namespace": "demo"}}}]}
    patch = injection_patch(CONFIGURATION, deepcopy(tree), SERVICE, PEM)
    tree["webhooks"][0]["clientConfig"].update(change)
    with pytest.raises(PatchError):
        apply_json_patch(tree, patch)


@pytest.mark.parametrize(
    ("target", "tree", "pointer"),
    [
        (DEFINITION, {"spec": {"conversion": {"strategy": "None"}}}, None),
        (DEFINITION, {"spec": {"conversion": {"webhook": {"clientConfig": {"url": "https://10.0.0.1:9443/c"}}}}}, 1),
        (API_SERVICE, {"spec": {"service": {"name": "hooks", "namespace": "demo"}}}, 2),
        (API_SERVICE, {"spec": {"service": None}}, None),
        (
            API_SERVICE,
            {"spec": {"service": {"name": "hooks", "namespace": "demo"}, "insecureSkipTLSVerify": True}},
            None,
        ),
        (CONFIGURATION, {"webhooks": None}, None),
        (CONFIGURATION, {}, None),
    ],
)
def test_where_each_kind_has_its_ca_bundle(target: InjectionTarget, tree: Any, pointer: int | None) -> None:
    """A definition without a webhook, and an APIService that skips the verification, have none."""
    pointers = {1: "/spec/conversion/webhook/clientConfig", 2: "/spec"}
    server = URL if target is DEFINITION else SERVICE
    expected = [] if pointer is None else [pointers[pointer]]
    assert [where for where, _ in client_configs(target, tree, server)] == expected
