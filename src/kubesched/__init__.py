"""kubesched: the Kubernetes scheduler in Python."""
