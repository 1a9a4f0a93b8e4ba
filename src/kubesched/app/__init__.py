"""Wiring: the only place that constructs everything, and the order in which things start and stop."""
