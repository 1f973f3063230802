"""``/metrics``: request and storage metrics under kube-apiserver's names.

Upstream: k8s.io/apiserver/pkg/endpoints/metrics/metrics.go (v1.36)
Deviates: a watch has no duration, and the other durations end where the response begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.metrics import REQUEST_SECONDS, AdmissionMetrics
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.storage.ports import LocalStorage
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.telemetry.series import Histograms, LoopHistogramSeries

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_LABELS = ("code", "component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version")
_WATCH_LABELS = (_LABELS[1], *_LABELS[3:])
_VERBS = {"create": "POST", "update": "PUT"}
_MOST = 10_000
"""Maximum sets of labels, since clients choose paths; further ones are counted as one set."""
_REST = ("", "apiserver", "", "", "", "", "", "OTHER", "")


class Metrics:
    """Counts requests and serves the metrics; a hook of the server.

    Args:
        stores: the registries by ``group/resource``.
        version: the server's version information.
        checks: the health checks by path.
        admission: the latencies of admission.
        storage: which has those of its requests.
    """

    def __init__(
        self,
        stores: Mapping[str, LocalStore],
        version: Mapping[str, str],
        checks: Mapping[str, Iterable[str]],
        *,
        admission: AdmissionMetrics,
        storage: LocalStorage,
    ) -> None:
        self._admission, self._storage = admission, storage
        self._stores = stores
        self._version = version
        self._checks = checks
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._durations = Histograms(
            "apiserver_request_duration_seconds",
            "Seconds until a response begins, by verb and resource.",
            _LABELS[1:],
            buckets=REQUEST_SECONDS,
            form=LoopHistogramSeries,
        )
        self._watches: Counter[tuple[str, ...]] = Counter()

    def __repr__(self) -> str:
        return f"<Metrics of {self._requests.total()} requests>"

    def __call__(self, call: Call, response: HttpResponse, seconds: float) -> None:
        """Count a response, and its time."""
        labels = labels_of(call, response.status)
        if len(self._requests) >= _MOST and labels not in self._requests:
            labels = _REST
        self._requests[labels] += 1
        if isinstance(response, StreamResponse) and call.info.verb == "watch":
            self._begin_watch(response, (labels[1], *labels[3:]))
            return
        self._durations.observe(seconds, *labels[1:])

    def _begin_watch(self, response: StreamResponse, labels: tuple[str, ...]) -> None:
        """Count a watch until its response is released."""
        self._watches[labels] += 1
        release = response.release

        def end() -> None:
            self._watches[labels] -= 1
            if not self._watches[labels]:
                del self._watches[labels]
            if release is not None:
                release()

        response.release = end

    def pages(self) -> dict[str, Callable[[Call], HttpResponse]]:
        """The handlers by path."""
        return {"/metrics": lambda _: _page(self._collect), "/metrics/slis": lambda _: _page(self._collect_checks)}

    def _collect(self) -> Iterator[Metric]:
        """Yield the metrics of requests, objects, build and process."""
        from prometheus_client import ProcessCollector
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        requests = CounterMetricFamily(
            "apiserver_request", "Requests by verb, resource and status code.", None, _LABELS
        )
        for labels, count in sorted(self._requests.items()):
            requests.add_metric(labels, count)
        yield requests
        yield from self._durations.collect()
        yield from self._admission.collect()
        if self._storage.metrics is not None:
            yield from self._storage.metrics.collect()
        watches = GaugeMetricFamily("apiserver_longrunning_requests", "Open watches.", None, _WATCH_LABELS)
        for labels, count in sorted(self._watches.items()):
            watches.add_metric(labels, count)
        yield watches
        about = ("group", "resource")
        objects = GaugeMetricFamily("apiserver_resource_objects", "Objects kept, by kind.", None, about)
        for key, store in sorted(self._stores.items()):
            page = store.storage.list_now(store.prefix, limit=1)
            objects.add_metric(key.split("/"), len(page.items) + (page.remaining or 0))
        yield objects
        labels = ("major", "minor", "git_version", "go_version", "platform")
        build = GaugeMetricFamily("kubernetes_build_info", "What this server says it is.", None, labels)
        build.add_metric([self._version[k] for k in ("major", "minor", "gitVersion", "goVersion", "platform")], 1)
        yield build
        yield from ProcessCollector(registry=None).collect()

    def _collect_checks(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import GaugeMetricFamily

        held = GaugeMetricFamily("kubernetes_healthcheck", "Whether a check holds.", None, ("name", "type"))
        for kind, names in self._checks.items():
            for name in names:
                held.add_metric((name, kind), 1)
        yield held


def labels_of(call: Call, status: int) -> tuple[str, ...]:
    """Return the metric labels of a request."""
    info = call.info
    if info.is_resource:
        verb = _VERBS.get(info.verb, info.verb.upper())
        if info.verb == "patch" and call.http.header("content-type").startswith("application/apply-patch"):
            verb = "APPLY"
        scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
        dry = ",".join(call.http.query.all("dryRun"))
    else:
        verb, scope, dry = info.method, "", ""
    return (str(status), "apiserver", dry, info.group, info.resource, scope, info.subresource, verb, info.version)


class _Collected:
    """A collector registry of one response."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self.collect = collect


def _page(collect: Callable[[], Iterator[Metric]]) -> HttpResponse:
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

    return HttpResponse(200, [("content-type", CONTENT_TYPE_PLAIN_0_0_4)], generate_latest(_Collected(collect)))
