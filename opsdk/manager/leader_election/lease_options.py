"""The durations of a Lease that is renewed."""

from __future__ import annotations

from opsdk.base.options import Options


class LeaseOptions(Options, frozen=True, kw_only=True):
    """The durations of a Lease in seconds. The defaults are client-go's.

    Attributes:
        lease_duration: how long the Lease is valid after a renewal.
        renew_deadline: the holder gives up when its renewals fail for this long.
        retry_period: time between two renewals.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
