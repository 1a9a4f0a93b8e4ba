"""What the offline engine refuses."""

from kubesched.api.errors import KubeschedError


class OfflineError(KubeschedError):
    """A request that makes no sense for this cluster; the message says which and why."""
