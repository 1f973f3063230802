"""What the README shows is what runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

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


def test_each_block_of_commands_starts_where_the_one_before_ends() -> None:
    """The commands of the samples return to the clone, and the operator ends before its API server."""
    commands = [line.strip() for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("    ")]
    folder = Path("clone")
    for line in commands[: commands.index("opsdk init demo && cd demo")]:
        for target in re.findall(r"(?:^|&& )cd (\S+)", line):
            folder = Path(os.path.normpath(folder / target))
    assert folder == Path("clone")
    ends = [line.partition("#")[0].strip() for line in commands if line.startswith("kill ")]
    assert ends == ["kill %2; wait %2; kill %1"]
