"""What the README shows is what runs."""

from __future__ import annotations

import greeter
from documentation import ROOT, blocks

from envtest import Environment
from opsdk import Client
from opsdk.structured_merge.value import JsonObject

README = ROOT / "README.md"
FILES = {block.title: block for block in blocks(README) if block.title}


def test_the_operator_on_the_first_screen_is_the_sample() -> None:
    """The README's operator is samples/greeter to the letter, in at most 18 lines of code, on the first screen."""
    shown = FILES["greeter.py"]
    assert shown.text == (ROOT / "samples/greeter/greeter.py").read_text()
    assert len([line for line in shown.text.splitlines() if line.strip()]) <= 18
    assert shown.line <= 10


async def test_the_test_in_the_readme_passes(k8s_env: Environment, k8s_client: Client) -> None:
    """The README's test, as it stands there, passes."""
    scope: JsonObject = {"greeter": greeter}
    exec(FILES["test_greeter.py"].text, scope)
    await scope["test_greeting"](k8s_env, k8s_client)
