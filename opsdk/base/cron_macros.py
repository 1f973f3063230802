"""The words of cron that stand for five fields. Pure.

Upstream: github.com/robfig/cron/v3/parser.go, which kube-controller-manager uses for CronJobs
"""

from __future__ import annotations

from typing import Final

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
