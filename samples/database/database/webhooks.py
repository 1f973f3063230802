"""The webhooks of Database: a validator and the conversion."""

from __future__ import annotations

from collections.abc import Sequence

from database.api import Database
from database.v1beta1 import CONVERTER
from opsdk import Operator
from opsdk.errors import AdmissionDeniedError
from opsdk.webhook.admission import invalid_field
from opsdk.webhook.handlers import AdmissionContext

VERSIONS = {"postgres": ("15", "16", "17"), "mysql": ("8", "9")}
"""The offered versions by engine, oldest first."""


class DatabaseRules:
    """Rules that depend on the versions of the service, or on the old object."""

    def validate_create(self, database: Database, _ctx: AdmissionContext) -> Sequence[str]:
        """Reject versions that the service does not offer; warn about the oldest one."""
        engine, version = database.spec.engine, database.spec.version
        offered = VERSIONS[engine]
        if version not in offered:
            raise _invalid(version, f"{engine} is offered in the versions {', '.join(offered)}")
        return [f"{engine} {version} is the oldest version on offer"] if version == offered[0] else []

    def validate_update(self, old: Database, new: Database, ctx: AdmissionContext) -> Sequence[str]:
        """Reject downgrades. Allow an unchanged version, even if it is no longer offered."""
        if old.spec.version == new.spec.version:
            return []
        if int(new.spec.version) < int(old.spec.version):
            raise _invalid(new.spec.version, f"a database of version {old.spec.version} cannot be downgraded")
        return self.validate_create(new, ctx)


def _invalid(version: str, reason: str) -> AdmissionDeniedError:
    return AdmissionDeniedError(reason="Invalid", causes=[invalid_field("spec.version", version, reason)])


def add_webhooks(operator: Operator) -> Operator:
    """Serve the webhooks in the operator, and return it."""
    operator.webhook_for(Database).with_validator(DatabaseRules()).with_converter(CONVERTER)
    return operator
