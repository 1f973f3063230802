"""An etcd cluster of real processes on loopback addresses, whose members can be killed, stopped and restarted."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from typing import Self

import pytest

BINARY = shutil.which("etcd")
needs_etcd = pytest.mark.skipif(BINARY is None, reason="etcd is not installed: apt-get install etcd-server")
_PATIENCE = 60.0


def progress_flag(text: str) -> str:
    """Return the flag for the interval of progress notifications, by the output of ``etcd --help``.

    Up to 3.5 it is experimental, 3.6 has both, 3.7 drops the experimental one.
    """
    flag = "--watch-progress-notify-interval"
    return flag if flag in text else "--experimental-watch-progress-notify-interval"


@cache
def _help() -> str:
    assert BINARY is not None
    done = subprocess.run([BINARY, "--help"], capture_output=True, text=True, timeout=_PATIENCE, check=True)
    return done.stdout + done.stderr


class Member:
    """One process of etcd, with its data in `directory`; it keeps its addresses over restarts."""

    def __init__(self, name: str, directory: Path, *, arguments: tuple[str, ...] = (), scheme: str = "http") -> None:
        self.name = name
        self.url = f"{scheme}://127.0.0.1:{free_port()}"
        self.peer_url = f"http://127.0.0.1:{free_port()}"
        self.log = directory / f"{name}.log"
        self._directory = directory / name
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, cluster: str) -> None:
        """Start the process; `cluster` lists the members as etcd's ``--initial-cluster`` does."""
        assert BINARY is not None
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    BINARY,
                    f"--name={self.name}",
                    f"--data-dir={self._directory}",
                    f"--listen-client-urls={self.url}",
                    f"--advertise-client-urls={self.url}",
                    f"--listen-peer-urls={self.peer_url}",
                    f"--initial-advertise-peer-urls={self.peer_url}",
                    f"--initial-cluster={cluster}",
                    f"{progress_flag(_help())}=200ms",
                    *self._arguments,
                ],
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """``kill -9``."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """Remove the data of a member that was killed."""
        shutil.rmtree(self._directory)

    def send(self, number: signal.Signals) -> None:
        """Send a signal; SIGSTOP cuts the member off, SIGCONT connects it again."""
        assert self._process is not None
        self._process.send_signal(number)
        if number is signal.SIGSTOP:
            # On a busy machine, a member answers for a while before it stops.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def healthy(self) -> bool:
        """Whether the member answers, with a leader."""
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        if self.url.startswith("https"):
            return True  # the storage's own attempts wait for it
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=1) as answer:
                return b"true" in answer.read()
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False


class EtcdCluster:
    """A cluster with `size` members; a context manager that starts all and kills all."""

    def __init__(
        self, directory: Path, *, size: int = 1, arguments: tuple[str, ...] = (), scheme: str = "http"
    ) -> None:
        names = [f"m{number}" for number in range(size)]
        self.members = [Member(name, directory, arguments=arguments, scheme=scheme) for name in names]
        self.initial = ",".join(f"{member.name}={member.peer_url}" for member in self.members)

    @property
    def urls(self) -> tuple[str, ...]:
        """The client URLs of all members."""
        return tuple(member.url for member in self.members)

    def restart(self, member: Member) -> None:
        """Start a member that was killed."""
        member.start(self.initial)

    def wait_healthy(self) -> None:
        """Wait until every member answers."""
        deadline = time.monotonic() + _PATIENCE
        while not all(member.healthy() for member in self.members):
            assert time.monotonic() < deadline, self.members[0].log.read_text()
            time.sleep(0.05)

    def __enter__(self) -> Self:
        for member in self.members:
            member.start(self.initial)
        try:
            self.wait_healthy()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()


def free_port() -> int:
    """Return a TCP port that is free now.

    It lies below the ports that the system gives to clients: one of these could take it while its member is down.
    """
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", random.randrange(15_000, 32_000)))
            except OSError:
                continue
            return int(probe.getsockname()[1])
