"""How fast we may ask: the token bucket of `clientConnection.qps` and `burst`, and the backoff of failing loops."""

from __future__ import annotations

from kubesched.clock import Chance, Clock


class TokenBucket:
    """Holds up to `burst` tokens and gains `qps` a second; whoever finds none waits its turn, first come first served.

    A `qps` of zero or less means no limit. Tokens may be owed: each waiter has reserved the next one to come.
    """

    __slots__ = ("_burst", "_clock", "_counted_at_s", "_qps", "_tokens")

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._tokens = self._burst
        self._clock = clock
        self._counted_at_s = clock.monotonic()

    def take_at_once(self) -> bool:
        """Takes a token if one is there; False when it would have to be waited for."""
        if self._qps <= 0:
            return True
        now_s = self._clock.monotonic()
        tokens = min(self._burst, self._tokens + (now_s - self._counted_at_s) * self._qps)
        if tokens < 1.0:
            return False
        self._tokens, self._counted_at_s = tokens - 1.0, now_s
        return True

    async def take(self) -> None:
        if self._qps <= 0:
            return
        now_s = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now_s - self._counted_at_s) * self._qps) - 1.0
        self._counted_at_s = now_s
        if self._tokens >= 0:
            return
        try:
            await self._clock.sleep(-self._tokens / self._qps)
        except BaseException:
            self._tokens += 1.0  # cancelled while waiting: the next to come gets the token
            raise


class Backoff:
    """The pauses of a loop that fails: 0.8 s doubling to 30 s, each stretched by up to its own length at random.

    Starts over when the last failure was more than two minutes ago. (client-go reflector, v1.36)
    """

    __slots__ = ("_cap_s", "_chance", "_clock", "_factor", "_first_s", "_last_s", "_next_s", "_reset_after_s")

    def __init__(
        self,
        clock: Clock,
        chance: Chance,
        *,
        first_s: float = 0.8,
        cap_s: float = 30.0,
        factor: float = 2.0,
        reset_after_s: float = 120.0,
    ) -> None:
        self._clock = clock
        self._chance = chance
        self._first_s = first_s
        self._cap_s = cap_s
        self._factor = factor
        self._reset_after_s = reset_after_s
        self._next_s = first_s
        self._last_s = clock.monotonic()

    def next_pause_s(self) -> float:
        now_s = self._clock.monotonic()
        if now_s - self._last_s > self._reset_after_s:
            self._next_s = self._first_s
        self._last_s = now_s
        pause_s = self._next_s
        self._next_s = min(pause_s * self._factor, self._cap_s)
        return pause_s * (1.0 + self._chance.random())
