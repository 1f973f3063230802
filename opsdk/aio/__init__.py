"""asyncio helpers for long-running programs: clock, task owner, alarm, exponential backoff, closing.

This package has no I/O and does not know Kubernetes. Work queues and retries of requests belong elsewhere.
"""
