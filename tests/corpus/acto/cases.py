"""All cases of this corpus."""

from __future__ import annotations

from tests.corpus.acto import (
    cassandra,
    cockroach,
    knative,
    mongodb_community,
    percona,
    rabbitmq,
    redis,
    tidb,
    zookeeper,
)

CASES = [
    *cassandra.CASES,
    *cockroach.CASES,
    *knative.CASES,
    *mongodb_community.CASES,
    *percona.CASES,
    *rabbitmq.CASES,
    *redis.CASES,
    *tidb.CASES,
    *zookeeper.CASES,
]
"""41 of Acto's 56 bugs: those whose input is known from Acto's own tests or from the report.

Missing are cockroach-operator 919; mongodb-community-operator 1055 and 1074; percona-xtradb-cluster-operator 1060, 1061
and 1067; rabbitmq-operator 928; spotahome-redis-operator 407; ot-redis-operator 283, 286, 292 and 297 (its pods fail by
a probe, and no container is started here); tidb-operator 4613 and 4945; zookeeper-operator 474.
"""
