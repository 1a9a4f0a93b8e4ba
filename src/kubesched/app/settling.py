"""When is there nothing more to schedule?"""

from __future__ import annotations

from kubesched.scheduler.scheduler import Scheduler

#: How many looks in a row must find nothing new before a cluster counts as settled. Looks and not seconds: on a busy
#: machine a second may pass in which nobody had a chance to do anything.
_QUIET_LOOKS = 10
_LOOK_EVERY_S = 0.1
#: A pod whose attempts met so many errors in a row is not waited for: it is tried again for ever.
_ERRORS_WAITED_FOR = 3


async def settled(scheduler: Scheduler) -> None:
    """Returns once every pending pod was tried in vain, nothing is under way, and all has been quiet for a while.

    In vain is also several errors in a row.
    """
    quiet_looks, position = 0, -1
    while quiet_looks < _QUIET_LOOKS:
        await scheduler.clock.sleep(_LOOK_EVERY_S)
        now = scheduler.state.nodes.journal.position
        if now != position or is_busy(scheduler):
            position, quiet_looks = now, 0
        else:
            quiet_looks += 1
    await scheduler.status_writer.flushed()


def is_busy(scheduler: Scheduler) -> bool:
    """Something is queued, in flight, being bound, or waiting only because the first attempts met an error."""
    queue = scheduler.queue
    return bool(
        scheduler.inbox
        or queue.active
        or queue.in_flight
        or any(pod.error_count < _ERRORS_WAITED_FOR for pod in queue.backoff.failed)
        or scheduler.binding_count
        or any(pod.attempts == 0 for pod in queue.backoff)
        or not scheduler.has_started
    )
