"""A plan names the fields that a new version of a kind loses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opsdk import GroupVersionKind, Model, Object, Operator
from opsdk.engine.plan import ConsequenceKind
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from tests.engine.upgrades import App, AppSpec, AppStatus, Version, plan_for, state_of


class OldSpec(Model):
    """The spec before v1."""

    image: str = ""
    backup: str = ""


class OldApp(Object[OldSpec, AppStatus]):
    """The version before v1."""

    gvk = GroupVersionKind("apps.example.com", "v1beta1", "App")


def to_hub(old: OldApp) -> App:
    """Return the App in v1."""
    return App(spec=AppSpec(image=old.spec.image, backup=old.spec.backup), status=old.status)


def lossy(app: App) -> OldApp:
    """Return the App in v1beta1, without its image."""
    return OldApp(spec=OldSpec(backup=app.spec.backup), status=app.status)


def lossless(app: App) -> OldApp:
    """Return the App in v1beta1."""
    return OldApp(spec=OldSpec(image=app.spec.image, backup=app.spec.backup), status=app.status)


def broken(_: App) -> OldApp:
    """Fail for each App."""
    raise ValueError("no image")


def _with(from_hub: Callable[[App], OldApp]) -> Version:
    def add_converter(operator: Operator) -> None:
        converter = HubSpokeConverter(App, Spoke(OldApp, to_hub=to_hub, from_hub=from_hub))
        operator.webhook_for(App).with_converter(converter)

    return Version(customize=add_converter)


@pytest.mark.parametrize(
    ("from_hub", "messages"),
    [
        (lossless, []),
        (lossy, ["3 apps lose spec.image when they are converted to apps.example.com/v1beta1 and back"]),
        (broken, ["3 apps cannot be converted to apps.example.com/v1beta1 and back: ValueError: no image"]),
    ],
)
def test_a_conversion_that_loses_fields_is_dangerous(from_hub: Callable[[App], OldApp], messages: list[str]) -> None:
    """Each object is converted to each served version and back; a lossless conversion is not named."""
    plan = plan_for(_with(from_hub), state_of(Version(), apps=3))
    lost = [each for each in plan.consequences if each.kind is ConsequenceKind.CONVERSION_LOSES_DATA]
    assert [each.message for each in lost] == messages
    assert plan.is_dangerous == bool(messages)


def test_a_definition_that_stays_is_not_named_again() -> None:
    """What a version loses was named when the version came."""
    version = _with(lossy)
    plan = plan_for(version, state_of(version, apps=3))
    assert [each.kind for each in plan.consequences] == []
