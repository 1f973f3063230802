"""Runs README's program with other Pythons, against an API server of this one.

usage: greeting.py PROGRAM MANIFEST PYTHON...

It imports the installed opsdk, never the clone: it is started as a file, in an environment that has the wheel.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

import opsdk
from envtest import Environment
from opsdk import Client, Cluster, Unstructured
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.serializer.yaml_documents import read_documents
from opsdk.testing.eventually import eventually

SECONDS = 120
"""For hangs: an operator is ready in about two seconds."""


async def _output(*command: str) -> bytes:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(command)}: status {process.returncode}")
    return output


async def _greeting(client: Client, manifest: str) -> str:
    """Create the object that `manifest` has; return the text that the operator wrote for it."""
    [document] = read_documents(manifest.encode())
    created = await client.create(Unstructured.from_tree(document))
    key = f"{created.metadata.namespace}/{created.metadata.name}"
    child = await eventually(lambda: client.get(ConfigMap, key))
    return child.data["text"]


async def run(python: str, program: Path, manifest: str) -> str:
    """Start the operator with `python`; return what it wrote. Exits if it fails or does not stop at SIGTERM."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "crds.yaml").write_bytes(await _output(python, str(program), "--print-crds"))
        async with Environment(crd_paths=[folder / "crds.yaml"]) as env, Cluster(env.config) as cluster:
            (folder / "kubeconfig").write_text(env.kubeconfig(await env.serve()))
            environment = os.environ | {"KUBECONFIG": str(folder / "kubeconfig")}
            with (folder / "log").open("wb") as log:
                operator = await asyncio.create_subprocess_exec(python, str(program), env=environment, stderr=log)
                try:
                    async with asyncio.timeout(SECONDS):
                        text = await _greeting(cluster.uncached, manifest)
                        operator.send_signal(signal.SIGTERM)
                        status = await operator.wait()
                finally:
                    if operator.returncode is None:
                        operator.kill()
                        await operator.wait()
                        sys.stderr.write((folder / "log").read_text())
            if status:
                sys.exit(f"{python} {program.name}: status {status}\n{(folder / 'log').read_text()}")
            return text


async def main(program: Path, manifest: str, pythons: list[str]) -> None:
    """Run the program with each Python, one after the other."""
    if not Path(opsdk.__file__).is_relative_to(sys.prefix):
        sys.exit(f"opsdk comes from {opsdk.__file__}, not from the wheel")
    for python in pythons:
        print(f"{python}\t{await run(python, program, manifest)}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]).read_text(), sys.argv[3:]))
