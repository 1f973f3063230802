"""Four ways to fail: for good, for a known time, until a limit, and at the first error."""

from __future__ import annotations

from opsdk import Context, ControllerOptions, Operator, RetryLimit, TemporaryError, TerminalError
from opsdk.queue.rate_limiters import ItemExponentialFailureRateLimiter
from tests.examples.kopf.kinds import Example

THREE_TRIES = ControllerOptions(
    retry_limit=RetryLimit(attempts=3),
    rate_limiter=ItemExponentialFailureRateLimiter(base=1, cap=1),
)
ONE_TRY = ControllerOptions(retry_limit=RetryLimit(attempts=1))


class ServiceError(Exception):
    """An error of a library."""


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("exceptions")

    @operator.reconciler(Example, name="fails-for-good")
    async def fail_for_good(example: Example) -> None:
        raise TerminalError("fail once and for all")

    @operator.reconciler(Example, name="succeeds-later")
    async def succeed_later(example: Example, ctx: Context) -> None:
        if ctx.attempt < 3:
            raise TemporaryError("not yet", delay=1)

    @operator.reconciler(Example, name="gives-up", options=THREE_TRIES)
    async def give_up(example: Example) -> None:
        raise ServiceError("the service is down")

    @operator.reconciler(Example, name="tries-once", options=ONE_TRY)
    async def try_once(example: Example) -> None:
        raise ServiceError("the service is down")

    return operator
