"""Doubles of the external systems that an operator calls: declared once, used by tests, the simulator and plans.

An external system is anything outside of the cluster: a DNS service, a cloud, a database. A plan must not change it,
and a test must not need it. Write a function beside the operator that creates the doubles, and name it in
pyproject.toml::

    [tool.opsdk]
    operator = "application.__main__:operator"
    doubles = "fake_dns:make_doubles"
"""

from opsdk.engine.doubles import EMPTY_CLUSTER, Doubles, DoublesFactory
from opsdk.engine.snapshot import ClusterSnapshot

__all__ = ["EMPTY_CLUSTER", "ClusterSnapshot", "Doubles", "DoublesFactory"]
