"""Measurements that print ratios. CPU seconds, never wall time: machines are noisy."""
