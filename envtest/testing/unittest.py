"""A base class for `unittest`: each test has its own environment, forked from one that is started once."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from typing import Any, ClassVar

from envtest.environment import Environment
from envtest.testing.template import Templates
from opsdk.cluster.cluster import Cluster
from opsdk.rest.config import RestConfig

_TEMPLATES = Templates()


class EnvironmentCase(unittest.IsolatedAsyncioTestCase):
    """An API server for each test.

    ::

        class Tests(EnvironmentCase):
            options = {"controllers": "cluster", "crd_paths": ["config/crd"]}

            async def test_namespaces(self):
                self.assertTrue(await self.cluster.uncached.list(Namespace))

    Attributes:
        options: arguments of `Environment` for all tests of the class.
        env: the test's environment.
        cluster: the cluster of the admin.
    """

    options: ClassVar[Mapping[str, Any]] = {}
    env: Environment
    cluster: Cluster

    def setUp(self) -> None:
        """Create the environment; no event loop runs yet."""
        super().setUp()
        self.env = _TEMPLATES.environment(self.options)

    async def asyncSetUp(self) -> None:
        """Start the environment."""
        await super().asyncSetUp()
        await self.enterAsyncContext(self.env)
        self.cluster = await self.enterAsyncContext(Cluster(self.env.config))

    @property
    def config(self) -> RestConfig:
        """The client configuration of the admin."""
        return self.env.config
