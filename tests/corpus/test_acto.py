"""Acto's bugs are found from the schemas alone; the repaired twins are silent."""

from __future__ import annotations

import pytest

from tests.corpus.acto.cases import CASES
from tests.corpus.case import CorpusCase
from tests.corpus.generated_search import search_with_generated_resources

FOUND_BY = {
    "cass-operator-315": (4, "path independence"),
    "cass-operator-330": (2, "path independence"),
    "cass-operator-334": (1, "path independence"),
    "cass-operator-471": (2, "path independence"),
    "cockroach-operator-918": (4, "misoperation"),
    "cockroach-operator-920": (0, "path independence"),
    "cockroach-operator-927": (2, "path independence"),
    "cockroach-operator-953": (1, "error check"),
    "knative-operator-1137": (1, "error check"),
    "knative-operator-1157": (1, "path independence"),
    "knative-operator-1158": (1, "error check"),
    "mongodb-community-operator-1024": (2, "path independence"),
    "mongodb-community-operator-1054": (0, "error check"),
    "mongodb-community-operator-1072": (4, "path independence"),
    "mongodb-community-operator-1245": (3, "recovery"),
    "mongodb-community-operator-1251": (2, "path independence"),
    "mongodb-community-operator-1252": (0, "field reach"),
    "percona-server-mongodb-operator-696": (2, "path independence"),
    "percona-server-mongodb-operator-738": (1, "field reach"),
    "percona-server-mongodb-operator-742": (1, "path independence"),
    "percona-server-mongodb-operator-895": (2, "path independence"),
    "percona-server-mongodb-operator-897": (1, "path independence"),
    "percona-xtradb-cluster-operator-1068": (0, "path independence"),
    "percona-xtradb-cluster-operator-1069": (0, "field reach"),
    "percona-xtradb-cluster-operator-1155": (2, "path independence"),
    "rabbitmq-operator-968": (2, "path independence"),
    "rabbitmq-operator-992": (1, "path independence"),
    "spotahome-redis-operator-400": (0, "path independence"),
    "spotahome-redis-operator-552": (2, "path independence"),
    "ot-redis-operator-280": (1, "path independence"),
    "ot-redis-operator-287": (2, "field reach"),
    "ot-redis-operator-290": (0, "field reach"),
    "ot-redis-operator-474": (2, "path independence"),
    "ot-redis-operator-480": (2, "path independence"),
    "tidb-operator-4684": (2, "path independence"),
    "tidb-operator-4946": (1, "path independence"),
    "zookeeper-operator-454": (1, "path independence"),
    "zookeeper-operator-513": (2, "path independence"),
    "zookeeper-operator-540": (1, "path independence"),
    "zookeeper-operator-541": (0, "path independence"),
    "zookeeper-operator-547": (2, "path independence"),
}
"""The workload that finds the bug of a case, among those from its definition, and the oracle."""
FAST = {
    "cass-operator-334",
    "cockroach-operator-918",
    "cockroach-operator-953",
    "mongodb-community-operator-1245",
    "percona-xtradb-cluster-operator-1069",
}
"""A case of each oracle. The other cases prove that the corpus is found."""
DEEP = [pytest.mark.slow, pytest.mark.deep]
EACH = [
    pytest.param(case, id=case.name, marks=[] if case.name in FAST else DEEP if place % 3 else pytest.mark.slow)
    for place, case in enumerate(CASES)
]
"""Two of three run with the deep tests, and all with ``make corpus``."""


@pytest.mark.parametrize("case", EACH)
def test_the_bug_is_found(case: CorpusCase) -> None:
    """One workload is enough, so that this takes a second."""
    workload, oracle = FOUND_BY[case.name]
    assert search_with_generated_resources(case, workload=workload).oracle == oracle


@pytest.mark.parametrize("case", EACH)
def test_the_twin_is_silent(case: CorpusCase) -> None:
    """The workload that finds the bug finds nothing in the twin. ``make corpus`` runs all workloads."""
    workload, _ = FOUND_BY[case.name]
    search = search_with_generated_resources(case, repaired=True, workload=workload, stop_at_first=False)
    assert [str(each) for each in search.findings] == []


def test_each_case_has_a_report() -> None:
    """Names are unique, and each cause is one sentence."""
    assert len({case.name for case in CASES}) == len(CASES) >= 40
    for case in CASES:
        assert case.report.startswith("https://")
        assert case.cause.endswith(".")
        assert case.broken().custom_kinds()
        assert case.repaired().custom_kinds()
