"""Copies from and to a container, on the local server with the tar of this machine."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from container_programs import HAS_PROGRAMS, real_programs
from pods_on_a_node import cut_connections, pod_environment

from opsdk import BlockingContext, Cluster, ClusterOptions, Operator
from opsdk.api.core.v1 import Pod
from opsdk.apimachinery.object import key_of
from opsdk.errors import (
    ConnectionLostError,
    CopyError,
    DeadlineError,
    NotFoundError,
    ResponseLimitError,
    UsageError,
)
from opsdk.pods.archive_writer import archive_of
from opsdk.testing.running import running

pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
pytestmark = pytest.mark.skipif(not HAS_PROGRAMS, reason="needs tar, mv and rm")
FILES = {"a.txt": b"a", "empty": b"", "sub/deep/b": bytes(range(256)) * 700, "n" * 150 + "/" + "é" * 60: b"long"}


def make_tree(root: Path) -> Path:
    """A folder with files, an empty folder, an executable, and a relative link."""
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "nothing").mkdir()
    (root / "a.txt").chmod(0o755)
    (root / "sub" / "link").symlink_to("../a.txt")
    os.link(root / "a.txt", root / "hard")
    return root


def tree(root: Path) -> dict[str, Any]:
    """The content of a folder: bytes and whether they are executable, link targets, and None for folders."""
    content: dict[str, Any] = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            content[name] = str(path.readlink())
        elif path.is_dir():
            content[name] = None
        else:
            content[name] = path.read_bytes(), os.access(path, os.X_OK)
    return content


def names(folder: Path) -> list[str]:
    """The names in a folder."""
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def pod_folder(tmp_path: Path) -> Path:
    """The folder that stands for the container's file system."""
    folder = tmp_path / "pod"
    folder.mkdir()
    return folder


@pytest.mark.realtime
@pytest.mark.parametrize("sockets", [False, True])
async def test_a_folder_is_the_same_after_both_ways(sockets: bool, tmp_path: Path, pod_folder: Path) -> None:
    """Names, bytes, links, empty folders and executable bits survive the copy to a container and back."""
    source = make_tree(tmp_path / "source")
    async with pod_environment(sockets=sockets) as (env, cluster):
        env.responders.run = real_programs
        await cluster.pods.copy_to("default/p", source, f"{pod_folder}/data", container="c")
        assert tree(pod_folder / "data") == tree(source)
        await cluster.pods.copy_from("default/p", f"{pod_folder}/data/", tmp_path / "back", container="c")
        assert tree(tmp_path / "back") == tree(source)
    assert names(pod_folder) == ["data"]
    assert names(tmp_path) == ["back", "pod", "source"]


async def test_hard_links_of_a_container_are_kept(tmp_path: Path, pod_folder: Path) -> None:
    """Two names of one file in the container are two names of one file in the copy."""
    make_tree(pod_folder / "data")
    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = real_programs
        await cluster.pods.copy_from("default/p", f"{pod_folder}/data", tmp_path / "copy", container="c")
    assert (tmp_path / "copy" / "hard").samefile(tmp_path / "copy" / "a.txt")


async def test_a_file_replaces_a_file(tmp_path: Path, pod_folder: Path) -> None:
    """In both directions a file at the destination is replaced; names that begin with a dash are names."""
    (pod_folder / "-f").write_bytes(b"new")
    (tmp_path / "copy").write_bytes(b"old")
    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = real_programs
        await cluster.pods.copy_from("default/p", f"{pod_folder}/-f", tmp_path / "copy", container="c")
        assert (tmp_path / "copy").read_bytes() == b"new"
        (tmp_path / "copy").write_bytes(b"newer")
        await cluster.pods.copy_to("default/p", tmp_path / "copy", f"{pod_folder}/-f", container="c")
        assert (pod_folder / "-f").read_bytes() == b"newer"


async def test_a_folder_never_merges(tmp_path: Path, pod_folder: Path) -> None:
    """A folder at the destination is an error in both directions, and keeps what it has."""
    for folder in (tmp_path / "here", pod_folder / "there"):
        folder.mkdir()
        (folder / "old").write_bytes(b"old")
    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = real_programs
        with pytest.raises(UsageError, match="never merges"):
            await cluster.pods.copy_from("default/p", str(pod_folder), tmp_path / "here", container="c")
        (tmp_path / "there").mkdir()
        for source in (tmp_path / "there", tmp_path / "here" / "old"):
            with pytest.raises(CopyError, match="mv ended with status 1"):
                await cluster.pods.copy_to("default/p", source, f"{pod_folder}/there", container="c")
    assert names(pod_folder) == ["there"]
    assert tree(pod_folder / "there") == tree(tmp_path / "here") == {"old": (b"old", False)}


async def test_failures_are_typed_and_leave_nothing(tmp_path: Path, pod_folder: Path) -> None:
    """A path, folder or Pod that does not exist names what is missing; nothing is left on either side."""
    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = real_programs
        pods, here = cluster.pods, tmp_path / "here"
        with pytest.raises(CopyError, match=r"tar ended with status 2 in Pod default/p: .*No such file"):
            await pods.copy_from("default/p", f"{pod_folder}/missing", here, container="c")
        with pytest.raises(NotFoundError):
            await pods.copy_from("default/q", f"{pod_folder}/missing", here)
        with pytest.raises(CopyError, match="cannot write"):
            await pods.copy_from("default/p", str(pod_folder), tmp_path / "no" / "folder", container="c")
        (tmp_path / "f").write_bytes(b"f")
        with pytest.raises(CopyError, match=r"tar ended with status 2 .*No such file"):
            await pods.copy_to("default/p", tmp_path / "f", f"{pod_folder}/no/f", container="c")
        with pytest.raises(UsageError, match="there is no file"):
            await pods.copy_to("default/p", tmp_path / "missing", f"{pod_folder}/f", container="c")
        for path in ("", "/", "."):
            with pytest.raises(UsageError, match="path in the container"):
                await pods.copy_to("default/p", tmp_path / "f", path, container="c")
        os.mkfifo(pod_folder / "fifo")
        with pytest.raises(CopyError, match="is a device, a FIFO"):
            await pods.copy_from("default/p", str(pod_folder), here, container="c")
        with pytest.raises(CopyError, match="socket or a FIFO"):
            await pods.copy_to("default/p", pod_folder, f"{pod_folder}/f", container="c")
        async with Cluster(cluster.config, ClusterOptions(dry_run=True)) as dry:
            with pytest.raises(UsageError, match="cannot copy from Pod"):
                await dry.pods.copy_from("default/p", str(pod_folder), here)
            with pytest.raises(UsageError, match="cannot copy to Pod"):
                await dry.pods.copy_to("default/p", tmp_path / "f", f"{pod_folder}/f")
    assert names(tmp_path) == ["f", "pod"]
    assert names(pod_folder) == ["fifo"]


@pytest.mark.parametrize("status", [None, 126, 127])
async def test_a_container_without_tar_is_named(status: int | None, tmp_path: Path) -> None:
    """Whatever the container runtime answers, the error says that the image needs the program."""

    async def run(command: Any, pipe: Any) -> int:
        if status is None:
            raise ValueError('exec: "tar": executable file not found in $PATH')
        return status

    (tmp_path / "f").write_bytes(b"f")
    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = run
        with pytest.raises(CopyError, match="did not run tar: a copy needs tar in the container: add it to the image"):
            await cluster.pods.copy_from("default/p", "/data", tmp_path / "copy", container="c")
        with pytest.raises(CopyError, match="did not run tar"):
            await cluster.pods.copy_to("default/p", tmp_path / "f", "/data", container="c")
    assert names(tmp_path) == ["f"]


@pytest.mark.parametrize("status", [None, 127, 1])
async def test_a_failure_of_mv_leaves_nothing(status: int | None, tmp_path: Path, pod_folder: Path) -> None:
    """A container without mv, or whose mv fails, has neither the copy nor its parts."""

    async def run(command: Any, pipe: Any) -> int:
        if command.argv[0] != "mv":
            return await real_programs(command, pipe)
        if status is None:
            raise ValueError('exec: "mv": executable file not found in $PATH')
        return status

    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = run
        with pytest.raises(CopyError, match="mv"):
            await cluster.pods.copy_to("default/p", make_tree(tmp_path / "source"), f"{pod_folder}/data", container="c")
    assert names(pod_folder) == []


async def test_a_file_that_shrinks_is_not_copied(tmp_path: Path) -> None:
    """A local file that becomes shorter while it is read is an error that names it."""
    source = tmp_path / "log"
    source.write_bytes(b"x" * 100_000)
    pieces = archive_of(source, "log")
    await anext(pieces)
    source.write_bytes(b"x")
    with pytest.raises(CopyError, match="log became shorter"):
        _ = [piece async for piece in pieces]


def _dying(cluster_of: Callable[[], Cluster], program: str) -> Any:
    """A container that cuts its connection when a program has received its input."""

    async def run(command: Any, pipe: Any) -> int:
        if command.argv[0] != program:
            return await real_programs(command, pipe)
        if command.stdin:
            await pipe.read()
        else:
            await pipe.write(b"x" * 512)
        cut_connections(cluster_of())
        await asyncio.sleep(1000)
        return 0

    return run


@pytest.mark.parametrize("program", ["tar", "mv"])
async def test_a_pod_that_dies_in_the_middle_leaves_nothing(program: str, tmp_path: Path, pod_folder: Path) -> None:
    """A lost connection is a typed error, and no destination exists after it."""
    source = make_tree(tmp_path / "source")
    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = _dying(lambda: cluster, program)
        with pytest.raises(ConnectionLostError):
            await cluster.pods.copy_to("default/p", source, f"{pod_folder}/data", container="c")
        if program == "tar":
            with pytest.raises(ConnectionLostError):
                await cluster.pods.copy_from("default/p", str(source), tmp_path / "copy", container="c")
    assert names(pod_folder) == []
    assert names(tmp_path) == ["pod", "source"]


async def test_a_connection_that_is_cut_at_each_place_leaves_nothing(tmp_path: Path) -> None:
    """Wherever an archive is cut, even behind its last byte, nothing is copied before the exit status is known."""
    data = _archive(*[(f"./d/{number}", {"size": 700}) for number in range(5)])
    places = range(0, len(data) + 1, 1024)
    async with pod_environment(sockets=False) as (env, cluster):
        for place in places:

            async def run(command: Any, pipe: Any, *, end: int = place) -> int:
                for start in range(0, end, 512):
                    await pipe.write(data[start : start + 512])
                await asyncio.sleep(1)
                cut_connections(cluster)
                await asyncio.sleep(1000)
                return 0

            env.responders.run = run
            with pytest.raises(ConnectionLostError):
                await cluster.pods.copy_from("default/p", "/d", tmp_path / "copy", container="c")
            assert names(tmp_path) == []
        env.responders.run = _sends(data)
        await cluster.pods.copy_from("default/p", "/d", tmp_path / "copy", container="c")
    assert names(tmp_path / "copy") == [str(number) for number in range(5)]


async def test_a_container_that_stops_is_a_deadline(tmp_path: Path) -> None:
    """A tar that neither sends nor ends is a DeadlineError, and nothing is left."""

    async def run(command: Any, pipe: Any) -> int:
        await asyncio.sleep(100_000)
        return 0

    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = run
        with pytest.raises(DeadlineError, match="tar did not end within 600 s"):
            await cluster.pods.copy_from("default/p", "/data", tmp_path / "copy", container="c")
    assert names(tmp_path) == []


@pytest.mark.slow
async def test_cancellation_at_each_await_leaves_nothing(tmp_path: Path, pod_folder: Path) -> None:
    """A copy that is cancelled after any number of iterations is complete or absent, on both sides.

    A tar that got all input before the cancellation may run after the removal of its folder, so that one may be left.
    """
    (tmp_path / "f").write_bytes(b"x" * 70_000)
    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = real_programs
        for turns in range(0, 200, 3):
            for call in (
                cluster.pods.copy_to("default/p", tmp_path / "f", f"{pod_folder}/f", container="c"),
                cluster.pods.copy_from("default/p", str(tmp_path / "f"), tmp_path / "copy", container="c"),
            ):
                task = asyncio.ensure_future(call)
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(60)
    for path in (pod_folder / "f", tmp_path / "copy"):
        assert not path.exists() or path.stat().st_size == 70_000
    assert {name for name in names(pod_folder) if not name.startswith(".opsdk-copy-")} <= {"f"}
    assert set(names(tmp_path)) <= {"f", "pod", "copy"}


def _archive(*members: tuple[str, dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, fields in members:
            info = tarfile.TarInfo(name)
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(bytes(min(info.size, 1000))) if info.isreg() else None)
    return buffer.getvalue()


LINK, HARD, FOLDER = {"type": tarfile.SYMTYPE}, {"type": tarfile.LNKTYPE}, {"type": tarfile.DIRTYPE}
HOSTILE = {
    "absolute": (_archive(("/etc/passwd", {})), "outside"),
    "dots": (_archive(("./d/../../x", {})), "outside"),
    "other": (_archive(("./e/x", {})), "outside"),
    "link-absolute": (_archive(("./d/l", LINK | {"linkname": "/etc"})), "link out of"),
    "link-dots": (_archive(("./d/l", LINK | {"linkname": "../x"})), "link out of"),
    "link-hidden-dots": (_archive(("./d/l", LINK | {"linkname": "s/../../x"})), "link out of"),
    "link-root": (_archive(("./d", LINK | {"linkname": "x"})), "itself a link"),
    "below-link": (_archive(("./d/l", LINK | {"linkname": "."}), ("./d/l/x", {})), "below the symlink"),
    "link-over-folder": (_archive(("./d/l/x", {}), ("./d/l", LINK | {"linkname": "."})), "same path"),
    "twice": (_archive(("./d/x", {}), ("./d/x", {})), "same path"),
    "hard-link": (_archive(("./d/h", HARD | {"linkname": "/etc/passwd"})), "outside"),
    "hard-link-to-nothing": (_archive(("./d/h", HARD | {"linkname": "./d/x"})), "no earlier file"),
    "device": (_archive(("./d/dev", {"type": tarfile.CHRTYPE})), "device"),
    "fifo": (_archive(("./d/fifo", {"type": tarfile.FIFOTYPE})), "FIFO"),
    "long-header": (_archive(("./d/x", {"pax_headers": {"comment": "x" * 100_000}})), "headers"),
    "empty": (b"", "damaged"),
    "no-entries": (bytes(10_240), "without entries"),
    "text": (b"hello" * 1000, "damaged"),
    "cut": (_archive(("./d/x", {"size": 600}))[:1536], "damaged"),
    "cut-between": (_archive(("./d/x", {}), ("./d/y", {}))[:1024], "damaged"),
    "broken-header": (_archive(("./d/x", {}))[:512] + b"x" * 512 + bytes(1024), "damaged"),
}


def _sends(data: bytes) -> Any:
    async def run(command: Any, pipe: Any) -> int:
        for start in range(0, len(data), 30_000):
            await pipe.write(data[start : start + 30_000])
        return 0

    return run


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_archive_is_refused(name: str, tmp_path: Path) -> None:
    """An entry that leads outside, or a damaged archive, is an error that says why; nothing is written."""
    data, message = HOSTILE[name]
    async with pod_environment(sockets=False) as (env, cluster):
        env.responders.run = _sends(data)
        with pytest.raises(CopyError, match=message):
            await cluster.pods.copy_from("default/p", "/d", tmp_path / "copy", container="c")
    assert names(tmp_path) == []


async def test_an_archive_is_bounded(tmp_path: Path) -> None:
    """Bytes that arrive, sizes that headers state, and the number of files each have a limit with its option."""
    many = _archive(*[(f"./d/{number}", {}) for number in range(20)])
    huge = bytearray(_archive(("./d/huge", {"size": 1000})))
    header = tarfile.TarInfo("./d/huge")
    header.size = 1 << 40
    huge[:512] = header.tobuf(tarfile.GNU_FORMAT)
    deep = _archive(("./d/" + "/".join("x" * 50), {}))
    async with pod_environment(sockets=False) as (env, cluster):
        for data, option in (
            (many, "max_files"),
            (deep, "max_files"),
            (bytes(huge), "max_bytes"),
            (bytes(50_000), "max_bytes"),
        ):
            env.responders.run = _sends(data)
            with pytest.raises(ResponseLimitError, match=option):
                await cluster.pods.copy_from(
                    "default/p", "/d", tmp_path / "copy", container="c", max_files=10, max_bytes=40_000
                )
    assert names(tmp_path) == []


async def test_a_plain_reconciler_copies(tmp_path: Path, pod_folder: Path) -> None:
    """A function in a thread copies in both directions without await."""
    (pod_folder / "f").write_bytes(b"f")
    operator = Operator("copier")

    @operator.reconciler(Pod)
    def reconcile(pod: Pod, ctx: BlockingContext) -> None:
        pods = ctx.target.cluster.pods
        ctx.run(pods.copy_from(key_of(pod), f"{pod_folder}/f", tmp_path / "copy", container="c"))
        ctx.run(pods.copy_to(key_of(pod), tmp_path / "copy", f"{pod_folder}/g", container="c"))

    async with pod_environment(sockets=False) as (env, _), running(operator, env):
        env.responders.run = real_programs
        await env.eventually((pod_folder / "g").exists)
    assert (pod_folder / "g").read_bytes() == b"f"
