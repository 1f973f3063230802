"""The page with all tables and plots: ``docs/benchmarks.md`` is its output."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.model import Metric, Results, Workload
from benchmarks.plots import bar_chart
from benchmarks.report import comparison_table, table, verdict_summary
from benchmarks.targets import Target

_PLOTTED = {
    "a": "RSS KiB per object",
    "b": "CPU ms per event",
    "c": "CPU ms per object",
    "e": "above delivery p50 ms",
    "g": "CPU ms per request",
    "i": "stall ms",
    "j": "ms",
}
"""The metric of each workload that has a plot: workloads with more than one client."""

_HEAD = """\
# Benchmarks

This page is the output of `make bench` (`python -m benchmarks --markdown docs/benchmarks.md`). Nothing is filled in by
hand. Each pair of workload and client ran as a process of its own on the same server, clients took turns, and figures
are medians over the rounds. Each result was checked: a wrong one fails the run and has no figures.

Trust the ratios; seconds belong to the machine, which stands at the end. A dash stands for a client without a
figure. The run prints more columns than this page has; a program with controller-runtime joins with `--program PATH`.
Workloads may be from several runs, and so from several commits of opsdk: the end of the page has each.
"""


def write_page(
    path: Path,
    results: Mapping[str, Results],
    targets: Sequence[Target],
    descriptions: Sequence[Mapping[str, str]],
    workloads: Sequence[Workload] = (),
) -> None:
    """Write the page, and its plots into the folder ``assets/benchmarks`` beside it.

    Args:
        path: the Markdown file.
        results: by letter.
        targets: judged in the first table.
        descriptions: of the machine, one for each run that the results are from.
        workloads: all that exist. The page names those without results.
    """
    parts = [
        _HEAD,
        *_busy(descriptions),
        "## Targets\n",
        "`benchmarks/targets.py` has the limits of opsdk.",
        verdict_summary(targets, results) + "\n",
    ]
    compared = {letter: result for letter, result in results.items() if len(result.clients()) > 1}
    for letter, result in compared.items():
        parts += [f"## ({letter}) {result.workload.title}\n", textwrap.fill(result.workload.note, 120) + "\n"]
        plot = _plot(result)
        if plot is not None:
            folder = path.parent / "assets" / "benchmarks"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{letter}.svg").write_text(plot, encoding="utf-8")
            parts.append(f"![{result.workload.title}](assets/benchmarks/{letter}.svg)\n")
        parts.append(_tables(result) + "\n")
    if alone := [f"({letter}) {result.workload.title}" for letter, result in results.items() if letter not in compared]:
        text = f"**Of opsdk alone**, so only in the output of the run: {', '.join(alone)}."
        parts.append(textwrap.fill(text, 120) + "\n")
    if missing := [f"({w.letter}) {w.title}" for w in workloads if w.letter not in results]:
        parts.append(f"**Not measured**: {', '.join(missing)}.\n")
    parts.append("## The machine\n")
    parts += [table(["", "run"], list(description.items())) + "\n" for description in _distinct(descriptions)]
    path.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")


def _busy(descriptions: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a warning if there was more to run than the server and one client would need."""
    loads = [float(d["load"].split()[0]) for d in descriptions if "load" in d]
    cores = [int(d["cores"]) for d in descriptions if d.get("cores", "").isdigit()]
    if not loads or not cores or max(loads) <= 1.5 * min(cores):
        return []
    load, count = f"{max(loads):.1f}", min(cores)
    return [f"**Other work ran on this machine at the same time**: a load of up to {load} on {count} cores.\n"]


def _distinct(descriptions: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the first description whole, and of the others only the lines that differ from it."""
    first, *others = [dict(description) for description in descriptions]
    return [first, *({key: value for key, value in other.items() if first.get(key) != value} for other in others)]


def _tables(result: Results) -> str:
    """Return the first and the plotted metric of all clients."""
    metrics = result.workload.metrics
    compared = [metric for metric in metrics if metric in (metrics[0], _plotted(result))]
    return "\n\n".join(comparison_table(result, metric) for metric in compared)


def _plotted(result: Results) -> Metric | None:
    name = _PLOTTED.get(result.workload.letter)
    return None if name is None else {metric.name: metric for metric in result.workload.metrics}[name]


def _plot(result: Results) -> str | None:
    metric = _plotted(result)
    if metric is None:
        return None
    groups = {
        variant: [
            (Path(client).name, figure)
            for client in result.clients()
            if (figure := result.median(variant, client, metric)) is not None
        ]
        for variant in result.variants()
    }
    return bar_chart(metric.name, {variant: bars for variant, bars in groups.items() if bars}, digits=metric.digits)
