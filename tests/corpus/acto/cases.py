"""All cases of Acto, by operator."""

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
