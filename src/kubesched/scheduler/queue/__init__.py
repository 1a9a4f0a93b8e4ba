"""The scheduling queue, one structure a file; `scheduling_queue` is the whole."""

from kubesched.scheduler.queue.queued_pod import QueuedPod
from kubesched.scheduler.queue.scheduling_queue import SchedulingQueue

__all__ = ["QueuedPod", "SchedulingQueue"]
