"""The offline engine: the scheduler's own core on manifests, without network and without waiting.

`Cluster` holds objects, answers why, and schedules in virtual time. Same manifests, same seed, same answers.
"""

from kubesched.offline.capacity import Capacity
from kubesched.offline.cluster import Cluster
from kubesched.offline.errors import OfflineError
from kubesched.offline.outcomes import Outcome, Result, Run

__all__ = ["Capacity", "Cluster", "OfflineError", "Outcome", "Result", "Run"]
