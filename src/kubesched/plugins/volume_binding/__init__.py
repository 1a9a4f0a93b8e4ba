"""VolumeBinding: a pod's claims are bound to volumes that its node can reach, or provisioned for it.

plugin      the plugin: points and queueing hints
claims      a pod's claims, sorted into bound ones and those to bind, with what may be bound to them
ranked      the best of several things for a node, by its labels: volumes by size, capacities
judging     may the pod run on these nodes, and which volumes would its claims get?
scoring     how well volumes or capacities are used
binding     what is assumed, written to the cluster, and waited for
"""

from kubesched.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
