"""When is there nothing more to schedule?"""

from __future__ import annotations

from kubesched.scheduler.scheduler import Scheduler

#: How long nothing may happen before a cluster counts as settled.
_QUIET_S = 1.0
_LOOK_EVERY_S = 0.1


async def settled(scheduler: Scheduler) -> None:
    """Returns once every pending pod was tried in vain, nothing is under way, and all has been quiet for a while."""
    clock = scheduler.clock
    quiet_since_s = clock.monotonic()
    position = -1
    while clock.monotonic() - quiet_since_s < _QUIET_S:
        await clock.sleep(_LOOK_EVERY_S)
        now = scheduler.state.nodes.journal.position
        if now != position or is_busy(scheduler):
            position, quiet_since_s = now, clock.monotonic()
    await scheduler.status_writer.flushed()


def is_busy(scheduler: Scheduler) -> bool:
    """Something is queued, in flight, being bound, or waiting only because an attempt met an error."""
    queue = scheduler.queue
    return bool(
        scheduler.inbox
        or queue.active
        or queue.in_flight
        or queue.backoff.failed
        or scheduler.binding_count
        or any(pod.attempts == 0 for pod in queue.backoff)
        or not scheduler.has_started
    )
