"""Our decisions against recorded ones of kube-scheduler v1.36.2: `python -m tests.conformance`."""
