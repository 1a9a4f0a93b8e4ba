"""Every number that kubesched exports, declared once in one `Metrics` object that is passed around.

Names, labels, types and buckets are kube-scheduler v1.36's, so that its dashboards and alerts keep working. The hot
path pays a dict lookup and an addition: the series are plain Python objects (`series`), and `prometheus_client` comes
in only when somebody asks for the text.
"""

from kubesched.metrics.limits import LimitError, Limits, parse_allowed
from kubesched.metrics.metrics import Metrics
from kubesched.metrics.series import Counter, Family, Gauge, Histogram

__all__ = ["Counter", "Family", "Gauge", "Histogram", "LimitError", "Limits", "Metrics", "parse_allowed"]
