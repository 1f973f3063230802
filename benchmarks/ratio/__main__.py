"""Measures the working tree beside an older commit: ``python -m benchmarks.ratio [--rounds 5] [--only fill,start]``.

Each round runs each row once in both trees, one after the other, on one server. The table has the medians of the pairs
with their spread: a busy machine slows both. A row above ``--limit`` is measured again, with more rounds; if the median
of all its pairs is above it, too, the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.objects import GROUP, VERSION, config_map, name_of, widget
from benchmarks.protocol import Sample
from benchmarks.ratio.trees import RatioError, Tree, measure, reference_tree, working_tree
from benchmarks.server import World, for_each, open_world
from opsdk import Unstructured
from opsdk.client.patch import merge_patch

REFERENCE: Final = "cc0e90d0"
"""The commit before the controller's features became branches."""


_MORE: Final = 3
"""Times the rounds that a row above the limit gets in addition."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table.

    Attributes:
        title: for readers.
        worker: the function of `benchmarks.ratio.worker`.
        objects: in the namespace: ``config_maps``, ``widgets`` or none.
        count: number of them, or of operations.
        options: more options of the worker.
        warms: a process before the first round brings the objects into their state.
    """

    title: str
    worker: str
    objects: str = ""
    count: int = 1
    options: dict[str, Any]
    warms: bool = False


ROWS: Final = {
    "fill": Row(
        title="fill a cache with 10,000 objects", worker="fill", objects="config_maps", count=10_000, options={}
    ),
    "event": Row(title="an event without a reconcile", worker="events", objects="widgets", count=1_000, options={}),
    "workers-1": Row(
        title="reconcile with a status write, 1 worker", worker="reconcile", objects="widgets", count=1_000,
        options={"workers": 1},
    ),
    "workers-16": Row(
        title="… 16 workers", worker="reconcile", objects="widgets", count=1_000, options={"workers": 16}
    ),
    "workers-64": Row(
        title="… 64 workers", worker="reconcile", objects="widgets", count=1_000, options={"workers": 64}
    ),
    "apply": Row(
        title="an apply pass with nothing to do", worker="apply", objects="widgets", count=1_000,
        options={"workers": 16}, warms=True,
    ),
    "idle": Row(title="a second of an idle operator, 20 informers", worker="idle", options={"seconds": 20}),
    "start": Row(title="start of a process, to its first reconcile", worker="start", objects="widgets", options={}),
}  # fmt: skip


class Comparison:
    """Runs rows in both trees, in turn.

    Args:
        world: the server.
        trees: the reference, and the working tree.
        scale: of the numbers of objects.
    """

    def __init__(self, world: World, trees: tuple[Tree, Tree], scale: float) -> None:
        self._world, self._trees, self._scale = world, trees, scale
        self._value = 1

    async def run(self, row: Row, rounds: int) -> list[tuple[Sample, Sample]]:
        """Return the pairs of a row."""
        count = max(round(row.count * self._scale), 1)
        for tree in self._trees:
            await self._prepare(tree, row, count)
            if row.warms:
                await self._measure(tree, row, count)
        return await self.repeat(row, rounds)

    async def repeat(self, row: Row, rounds: int) -> list[tuple[Sample, Sample]]:
        """Return more pairs of a row that `run` has prepared."""
        count = max(round(row.count * self._scale), 1)
        pairs = []
        for number in range(rounds):
            # What the first process leaves warm helps the second one: they take turns.
            order = self._trees if number % 2 == 0 else self._trees[::-1]
            measured = {tree.name: await self._measure(tree, row, count) for tree in order}
            pairs.append((measured[self._trees[0].name], measured[self._trees[1].name]))
        return pairs

    async def _prepare(self, tree: Tree, row: Row, count: int) -> None:
        make = {"config_maps": config_map, "widgets": widget}.get(row.objects)
        namespace = _namespace(tree, row)
        await self._world.create_namespace(namespace)
        if make is not None:
            await self._world.create(make(namespace, number) for number in range(count))

    async def _measure(self, tree: Tree, row: Row, count: int) -> Sample:
        self._value += 1
        namespace = _namespace(tree, row)
        options = {
            "kubeconfig": str(self._world.kubeconfig),
            "namespace": namespace,
            "count": count,
            "value": self._value,
            **row.options,
        }
        return await measure(tree, row.worker, options, during=self._change(namespace, count, self._value))

    def _change(self, namespace: str, count: int, value: int) -> Callable[[], Awaitable[None]]:
        async def change(tree: dict[str, Any]) -> None:
            patch = merge_patch({"spec": {"value": value}})
            await self._world.cluster.uncached.patch(Unstructured.from_tree(tree), patch)

        async def change_all() -> None:
            metadata = [{"name": name_of(number), "namespace": namespace} for number in range(count)]
            kinds = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Widget"}
            await for_each([{**kinds, "metadata": each} for each in metadata], change)

        return change_all


def _namespace(tree: Tree, row: Row) -> str:
    """Return a namespace whose objects no other tree writes: each has its own way to note what it applied."""
    return f"{tree.name}-{row.worker}-{row.count}"


def report(row: Row, pairs: list[tuple[Sample, Sample]]) -> tuple[str, float]:
    """Return the line of a row, and the median of its ratios."""
    ratios = sorted(head.cpu / reference.cpu for reference, head in pairs)
    median = statistics.median(ratios)
    reference, head = (statistics.median(1000 * pair[side].cpu / pair[side].count for pair in pairs) for side in (0, 1))
    memory = [statistics.median(pair[side].rss for pair in pairs) / 1024 for side in (0, 1)]
    spread = f"{median:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    figures = f"{reference:>10.3f}{head:>10.3f}  {spread:22}{memory[0]:>8.1f}{memory[1]:>8.1f}"
    return f"{row.title:46}{figures}", median


async def compare(rows: list[str], *, rounds: int, scale: float, reference: str, limit: float) -> int:
    """Print the table. Returns 1 if a row is above the limit."""
    trees = reference_tree(reference), working_tree()
    print(f"{'':46}{reference[:8]:>10}{'head':>10}  {'ratio of CPU':22}{'MiB':>8}{'MiB':>8}")
    exceeded = []
    async with open_world(None) as world:
        comparison = Comparison(world, trees, scale)
        for name in rows:
            pairs = await comparison.run(ROWS[name], rounds)
            line, median = report(ROWS[name], pairs)
            if median > limit:
                # Other work on the machine makes some pairs unequal.
                line, median = report(ROWS[name], pairs + await comparison.repeat(ROWS[name], _MORE * rounds))
            print(line, flush=True)
            if median > limit:
                exceeded.append(f"{name} {median:.2f}")
    print("CPU in ms an operation, medians; resident memory at the end")
    if exceeded:
        print(f"above {limit:g}: {', '.join(exceeded)}: say what it buys, or give it back")
    return 1 if exceeded else 0


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ratio", description="Compare with an older commit.")
    parser.add_argument("--reference", default=REFERENCE, help="the commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(ROWS), help="rows, separated by commas")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of objects")
    parser.add_argument("--limit", type=float, default=float("inf"), help="the largest ratio; exits with 1 above it")
    options = parser.parse_args()
    if unknown := [name for name in options.only.split(",") if name not in ROWS]:
        parser.error(f"no row {', '.join(unknown)}: choose from {', '.join(ROWS)}")
    try:
        return asyncio.run(
            compare(
                options.only.split(","),
                rounds=options.rounds,
                scale=options.scale,
                reference=options.reference,
                limit=options.limit,
            )
        )
    except RatioError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
