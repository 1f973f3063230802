"""A bad night in a minute: the alert, the console, the recording, the repair. ``python -m website.incident``."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

from opsdk import Client
from website.incident.monitoring import FASTER, firing, is_scraped, metric_lines, prometheus, write_config
from website.incident.shell import IncidentError, Shell
from website.incident.users import NEW_IMAGE, OLD_IMAGE, are_served, create_websites, move_image, on_cluster

T = TypeVar("T")

ALERT = "OpsdkReconcilesFail"
JOB = "website-operator"
COUNTERS = ("controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_total")
_FAILURES = 8
"""Of one object, before the demo looks at the operator: 0.6 s after the first."""


class Incident:
    """The chapters of the demo.

    Args:
        shell: runs its commands.
    """

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        metrics, debug, server = free_ports(3)
        self._metrics, self._debug = f"127.0.0.1:{metrics}", f"127.0.0.1:{debug}"
        self._prometheus = f"127.0.0.1:{server}"

    def tell(self) -> None:
        """Tell all of it."""
        self.start_server()
        operator = self.start_operator("recordings", "operator.log")
        self.start_prometheus()
        self.break_it()
        self.see_alert()
        self.look()
        self.stop_operator(operator)
        failed = self.replay()
        self.try_repair(failed)
        self.cut_test(failed)
        self.roll_out()

    # ------------------------------------------------------------ the evening
    def start_server(self) -> None:
        """Start an API server with two Websites."""
        shell = self._shell
        shell.chapter(
            "The evening",
            f"A local API server, in {shell.folder}. It has the kind Website.",
        )
        here = Path(__file__).parent
        for name in ("release.py", "repaired.py"):
            shutil.copy(here / name, shell.folder)
        shell.start("opsdk apiserver --port 0 --kubeconfig kubeconfig -- --exit-with-parent", "server.log")
        shell.run("opsdk apiserver --kubeconfig kubeconfig --wait")
        shell.export("KUBECONFIG", str(shell.folder / "kubeconfig"))
        self._on_cluster(create_websites)

    def start_operator(self, recordings: str, log: str) -> subprocess.Popen[bytes]:
        """Start the release with the bug. Returns its process when the Websites are ready."""
        shell = self._shell
        shell.say("", "The operator is release 1.1. It records, and serves metrics and debug pages.")
        flags = (
            f"--recording-dir={recordings} --metrics-bind-address={self._metrics} --debug-bind-address={self._debug}"
        )
        operator = shell.start(f"opsdk run release:operator -- {flags}", log)
        shell.wait(lambda: self._on_cluster(are_served), "the operator makes the Websites ready")
        shell.say(f"Two Websites are ready: hello and docs. Both serve {OLD_IMAGE}.")
        return operator

    def start_prometheus(self) -> None:
        """Start Prometheus with the generated rules, if it is installed."""
        shell = self._shell
        shell.say("", "Its alerts and their runbooks are generated from its declaration.")
        shell.run(f"opsdk generate monitoring release:operator --job {JOB} --output-dir monitoring", lines=3)
        if not prometheus():
            shell.say("", "Prometheus is not installed, so no alert fires. Debian's package is named prometheus.")
            return
        write_config(shell.folder, job=JOB, metrics=self._metrics)
        shell.say(
            "",
            "Prometheus reads the metrics and evaluates these rules. rules.yaml has the `spec` of the PrometheusRule,",
            f"{FASTER} times as fast: 1 s instead of 15 s between evaluations, `for: 4s` instead of `for: 60s`.",
        )
        options = f"--config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address={self._prometheus}"
        shell.start(f"prometheus {options}", "prometheus.log")
        shell.wait(lambda: is_scraped(f"http://{self._prometheus}", JOB), "Prometheus reads the metrics")

    # ------------------------------------------------------------ the night
    def break_it(self) -> None:
        """Let a user do what the release does not expect."""
        self._shell.chapter(
            "The incident",
            "A user moves Website hello to the registry of the company:",
            f"  spec.image: {OLD_IMAGE} -> {NEW_IMAGE}",
        )
        self._on_cluster(move_image)

    def see_alert(self) -> None:
        """Wait for the alert, and open its runbook."""
        shell = self._shell
        shell.chapter("The alert")
        if prometheus():
            began = time.monotonic()
            shell.wait(lambda: firing(f"http://{self._prometheus}", ALERT) is not None, f"{ALERT} fires")
            alert = firing(f"http://{self._prometheus}", ALERT) or {}
            notes = alert["annotations"]
            shell.say(
                f"After {time.monotonic() - began:.0f} s, http://{self._prometheus}/api/v1/alerts has:",
                f"  {ALERT}, severity {alert['labels']['severity']}: {notes['summary']}",
                f"  {notes['description']}",
                f"  {notes['runbook_url']}",
            )
        else:
            url = f"http://{self._metrics}"
            shell.wait(lambda: self._failures() >= _FAILURES, "reconciles fail")
            shell.say(
                f"Without Prometheus: {ALERT} would fire when a fifth of the reconciles fail for a minute.",
                f"These are the counters of {url}/metrics that it divides:",
                *(f"  {line}" for line in metric_lines(url, *COUNTERS)),
            )
        shell.say("", "The runbook of the alert has the next commands:")
        shell.run(f"sed -n '/## See more/,$p' monitoring/runbooks/{ALERT}.md")

    def look(self) -> None:
        """Look at the running operator."""
        shell = self._shell
        shell.chapter("What is wrong now?", "`opsdk top` shows the worst first. Its status is 3 if there are problems.")
        shell.wait(lambda: self._failures() >= _FAILURES, "reconciles fail")
        shell.run(f"opsdk top --once --url http://{self._debug}", statuses=(3,))
        shell.say("", "One Website fails, the other one is well. What is different about it?")

    # ------------------------------------------------------------ the morning
    def stop_operator(self, operator: subprocess.Popen[bytes]) -> None:
        """End the operator: its recording stays."""
        self._shell.chapter(
            "The morning", "The release is rolled back, so its operator stops. The recording is all that stays."
        )
        self._shell.stop(operator)

    def replay(self) -> str:
        """Run the night again, up to the first failure. Returns its number."""
        shell = self._shell
        shell.say("", "`opsdk replay` runs the same code with the same responses, and needs no server.")
        printed = shell.run("opsdk replay recordings")
        number = re.search(r"the first is #(\d+)", printed) or re.search(r"errors:\n  #(\d+)", printed)
        if number is None:
            raise IncidentError("the replay names no failed reconcile")
        shell.say("", f"All requests are identical, so the replay is the night. #{number[1]} was the first to fail.")
        shell.say("What did it see, who caused it, and where did it fail?")
        shell.run(f"opsdk replay recordings --to-reconcile {number[1]} --show Website/default/hello")
        shell.say(
            "", "web-team changed spec.image. Its registry has a port, so it has two colons: the code expects one."
        )
        return number[1]

    def try_repair(self, failed: str) -> None:
        """Plan what the repaired version does from the same place."""
        shell = self._shell
        shell.chapter("The repair")
        shell.run("diff release.py repaired.py", statuses=(1,))
        shell.say("", "What would it have done then? Status 2 means: there is something to write.")
        shell.run(f"opsdk replay recordings --to-reconcile {failed} --with repaired.py", statuses=(2,))

    def cut_test(self, failed: str) -> None:
        """Make a test of the place, which fails with the bug and passes without it."""
        shell = self._shell
        shell.chapter("The proof", "The state of that moment becomes a test, so that the bug does not come back.")
        shell.run(f"opsdk replay recordings --to-reconcile {failed} --cut test_night.py")
        shell.say("", "It fails with release 1.1,")
        pytest = "python -m pytest -q --tb=line --show-capture=no -p no:cacheprovider test_night.py"
        shell.run(pytest, statuses=(1,))
        shell.say("", "and passes with the repaired version.")
        shell.run("cp repaired.py release.py")
        shell.run(pytest)

    def roll_out(self) -> None:
        """Run the repaired version in the cluster."""
        shell = self._shell
        shell.chapter("The end", "The repaired version is rolled out.")
        shell.start("opsdk run release:operator", "repaired.log")
        shell.wait(lambda: self._on_cluster(are_served), "the repaired version makes hello ready")
        shell.say(f"Website hello is ready, and serves {NEW_IMAGE}: as planned.")

    # ------------------------------------------------------------ parts
    def _failures(self) -> float:
        lines = metric_lines(f"http://{self._metrics}", COUNTERS[0])
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def _on_cluster(self, action: Callable[[Client], Awaitable[T]]) -> T:
        return on_cluster(self._shell.folder / "kubeconfig", action)


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that are free now, different ones."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]


def _exit(number: int, _: FrameType | None) -> NoReturn:
    # As an exception, so that the programs of the demo end before it.
    raise SystemExit(128 + number)


def main() -> int:
    """Tell the story in a temporary folder, and remove it. Returns the exit status."""
    signal.signal(signal.SIGTERM, _exit)
    # A shell lets its background jobs ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="incident-") as folder, Shell(Path(folder)) as shell:
        try:
            Incident(shell).tell()
        except IncidentError as error:
            shell.say("", f"The demo ends early: {error}")
            return 1
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        shell.say("", f"The demo is finished, after {time.monotonic() - began:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
