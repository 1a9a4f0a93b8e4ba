"""The core: queue, scheduling cycle, binding cycle, what happens after "no", and the handlers of cluster events.

It runs on one event loop as the single writer of the cluster state. It knows no network, no wall clock, and no plugin
by name: those come in as a `ClusterPort`, a `Clock` and a registry.
"""
