"""All cases of Sieve, in the order of its table."""

from __future__ import annotations

from tests.corpus.sieve import crashes, missed_events, old_settings, other_bugs, recreated_clusters

_MODULES = (crashes, recreated_clusters, old_settings, missed_events, other_bugs)
_PATTERNS = ("intermediate state", "stale state", "unobserved state", "indirect")

CASES = sorted(
    (case for module in _MODULES for case in module.CASES),
    key=lambda case: (case.project, _PATTERNS.index(case.pattern), case.name),
)
