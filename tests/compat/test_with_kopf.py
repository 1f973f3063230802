"""An operator written with kopf."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kopf.testing import KopfRunner
from kubernetes import client, config

from opsdk.structured_merge.value import JsonObject

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]
GROUP = "kopf.test"
HANDLED = "kopf.zalando.org/last-handled-configuration"
OPERATOR = str(Path(__file__).with_name("toys_operator.py"))


def eventually(look: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + 30
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Story:
    """Toys in a namespace, and the operator."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self.namespace = namespace
        self.core = client.CoreV1Api(api)
        self._toys = client.CustomObjectsApi(api)
        self._where = (GROUP, "v1", namespace, "toys")

    def operator(self) -> KopfRunner:
        """Runs it, to be entered."""
        return KopfRunner(["run", "--standalone", "--namespace", self.namespace, OPERATOR], timeout=60)

    def make(self, name: str) -> None:
        """Make a toy."""
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": name}, "spec": {"replicas": 1}}
        self._toys.create_namespaced_custom_object(*self._where, body)

    def resize(self, name: str, replicas: int) -> None:
        """Change its spec."""
        self._toys.patch_namespaced_custom_object(*self._where, name, {"spec": {"replicas": replicas}})

    def delete(self, name: str) -> None:
        """Ask for its end."""
        self._toys.delete_namespaced_custom_object(*self._where, name)

    def toy(self, name: str) -> JsonObject:
        """As it is."""
        tree: JsonObject = self._toys.get_namespaced_custom_object(*self._where, name)
        return tree

    def notes(self, name: str) -> dict[str, str]:
        """Its annotations."""
        result: dict[str, str] = self.toy(name)["metadata"].get("annotations", {})
        return result

    def status(self, name: str) -> JsonObject:
        """Its status."""
        tree: JsonObject = self.toy(name).get("status", {})
        return tree

    def names(self) -> list[str]:
        """Which toys there are."""
        return [o["metadata"]["name"] for o in self._toys.list_namespaced_custom_object(*self._where)["items"]]

    def maps(self) -> list[str]:
        """Which maps there are."""
        return [o.metadata.name for o in self.core.list_namespaced_config_map(self.namespace).items]

    def reasons(self) -> list[str]:
        """Of the events so far."""
        return [e.reason for e in self.core.list_namespaced_event(self.namespace).items]


@pytest.fixture(scope="module")
def _defined() -> set[str]:
    return set()


@pytest.fixture
def story(kubeconfig: str, namespace: str, definition: Any, _defined: set[str]) -> Iterator[Story]:
    """A namespace for toys, which are defined once."""
    with config.new_client_from_config(kubeconfig) as api:
        if GROUP not in _defined:
            client.ApiextensionsV1Api(api).create_custom_resource_definition(definition(GROUP))
            _defined.add(GROUP)
        yield Story(api, namespace)


def test_an_operator_lives_its_life(story: Story) -> None:
    """Handlers run and keep their progress, a timer ticks, and a toy goes when its finalizer has been taken off."""
    with story.operator() as runner:
        story.make("t")
        eventually(lambda: story.status("t").get("made") == {"seen": 1, "name": "t"})
        # What changes before all handlers have seen the beginning is not a change.
        eventually(lambda: HANDLED in story.notes("t"))
        story.resize("t", 5)
        eventually(lambda: story.status("t")["made"]["seen"] == 5)
        eventually(lambda: story.status("t").get("resized") == "1 -> 5")
        eventually(lambda: story.status("t").get("ticks", 0) > 2)
        assert story.toy("t")["metadata"]["finalizers"] == [f"{GROUP}/finalizer"]
        story.delete("t")
        eventually(lambda: not story.names())
        eventually(lambda: "Seen" in story.reasons())
    assert runner.exit_code == 0
    assert runner.exception is None
    assert "good-bye" in runner.output
    assert "the daemon leaves" in runner.output


def test_handlers_try_again_and_have_children(story: Story) -> None:
    """A kopf handler retries a temporary error and counts in the object; the child is deleted with its owner."""
    with story.operator():
        story.make("t")
        eventually(lambda: story.status("t").get("attempts") == 3)
        eventually(lambda: "t-child" in story.maps())
        story.delete("t")
        eventually(lambda: not story.names() and "t-child" not in story.maps())


def test_an_operator_comes_back(story: Story) -> None:
    """A restarted kopf operator resumes known objects, gets missed changes, and finishes pending deletions."""
    with story.operator() as first:
        story.make("stays")
        story.make("goes")
        eventually(lambda: all(HANDLED in story.notes(n) for n in ("stays", "goes")))
    assert first.exit_code == 0
    story.resize("stays", 7)
    story.delete("goes")
    assert sorted(story.names()) == ["goes", "stays"]
    with story.operator() as second:
        eventually(lambda: story.names() == ["stays"])
        eventually(lambda: story.status("stays").get("resumed") == 1)
        eventually(lambda: story.status("stays")["made"]["seen"] == 7)
    assert second.exit_code == 0


def test_indices_follow_the_objects(story: Story) -> None:
    """A kopf index of one kind is visible in handlers of another kind."""
    with story.operator():
        for name in ("a", "b"):
            story.make(name)
        eventually(lambda: all(story.status(name).get("attempts") == 3 for name in ("a", "b")))
        notes = {"kopf.test/count": "toys"}
        story.core.create_namespaced_secret(story.namespace, {"metadata": {"name": "s", "annotations": notes}})

        def told() -> str | None:
            notes: dict[str, str] = story.core.read_namespaced_secret("s", story.namespace).metadata.annotations
            return notes.get("kopf.test/toys")

        eventually(lambda: told() == "2")
        for name in ("a", "b"):
            story.delete(name)
        eventually(lambda: not story.names())
