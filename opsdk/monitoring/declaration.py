"""What monitoring needs to know of an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client.utils import floatToGoString

from opsdk.base.options import Options
from opsdk.errors import UsageError
from opsdk.monitoring.promql import SELECTOR, object_name, quoted
from opsdk.telemetry.prometheus import GENERATION_BUCKETS

DEFAULT_RUNBOOKS: Final = "runbooks"


class Objective(Options, frozen=True, kw_only=True):
    """The service level of an operator: changes of specs are observed in time.

    Attributes:
        seconds: from a change of a spec until it is observed; one of `GENERATION_BUCKETS`.
        share: of the changes, that are observed in this time.

    Raises:
        UsageError: `seconds` is not a bucket of the metric, or `share` is not between 0.5 and 1.
    """

    seconds: float = 30.0
    share: float = 0.99

    def __post_init__(self) -> None:
        if self.seconds not in GENERATION_BUCKETS:
            bounds = ", ".join(f"{bound:g}" for bound in GENERATION_BUCKETS)
            raise UsageError(f"an objective of {self.seconds:g} seconds cannot be measured: choose one of {bounds}")
        if not 0.5 <= self.share < 1:
            raise UsageError(f"an objective of {self.share:g} of the changes: choose a share from 0.5 to below 1")

    @property
    def bucket(self) -> str:
        """The label ``le`` of the bucket with the changes that are in time."""
        label: str = floatToGoString(self.seconds)  # type: ignore[no-untyped-call]
        return label


class MonitoredOperator(Options, frozen=True, kw_only=True):
    """An operator as its declaration says.

    Attributes:
        name: its name. Any text: it is escaped where it is used.
        controllers: the kind of each controller by its name; empty for a controller without one.
        webhooks: whether it serves webhooks.
        leader_election: whether its replicas elect a leader.
        fleet: whether it works in other clusters.
        job: the label ``job`` of its metrics; default: the Service that `opsdk package` writes.
        namespace: the label ``namespace`` of its metrics; empty for any.
        runbooks: URL of the folder with the runbooks.
        objective: its service level.
    """

    name: str
    controllers: Mapping[str, str] = {}
    webhooks: bool = False
    leader_election: bool = False
    fleet: bool = False
    job: str = ""
    namespace: str = ""
    runbooks: str = DEFAULT_RUNBOOKS
    objective: Objective = Objective()

    @property
    def object_name(self) -> str:
        """The name of its objects."""
        return object_name(self.name)

    @property
    def selector(self) -> str:
        """The labels of its metrics, as in a query."""
        labels = [f"job={quoted(self.job or f'{self.object_name}-metrics')}"]
        return ",".join([*labels, *([f"namespace={quoted(self.namespace)}"] if self.namespace else [])])

    def query(self, text: str) -> str:
        """Return a query for the metrics of this operator."""
        return " ".join(text.split()).replace(SELECTOR, self.selector)
