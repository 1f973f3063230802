"""The group batch: jobs and cron jobs.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
