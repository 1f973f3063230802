"""What asyncio lacks for long-lived programs: a clock port, owned tasks, backoff, broadcast.

Knows nothing of Kubernetes. Pure rules and thin loops only; no I/O.
"""
