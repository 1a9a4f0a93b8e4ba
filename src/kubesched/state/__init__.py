"""The scheduler's picture of the cluster.

Nodes are rows of NumPy columns (`node_table`), pods are requirements computed once (`pod_info`), other objects are
plain indexes (`objects`). `cluster_state` is the only writer; it runs between scheduling cycles. Nothing here knows
plugins, waits, or reads a clock.
"""
