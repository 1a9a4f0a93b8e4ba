"""A plugin in one file: pods that name a GPU model land on nodes that have it, and the emptier node is the better one.

kubesched run --embedded --load examples/cluster --until-settled --plugin examples/plugins/gpu_model.py:GpuModel
"""

from kubesched.framework import Plugin, Status


class GpuModel(Plugin):
    name = "GpuModel"

    def filter(self, state, pod, node):
        want = pod.metadata.annotations.get("gpu-model")
        return None if want in (None, node.labels.get("gpu-model")) else Status.unschedulable("wrong GPU model")

    def score(self, state, pod, node):
        return max(0, 100 - len(node.pods))
