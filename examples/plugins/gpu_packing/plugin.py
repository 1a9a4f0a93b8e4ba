"""Bin-packing by GPU model: pods get the model they name, on the node whose GPUs are the fullest.

A pod asks for GPUs as usual (an extended resource) and may name the models that will do, the best first, in the
annotation `gpu-model`. Full nodes are filled up before others are begun, so that whole nodes stay free for big jobs.
Pods that want no GPU are kept off GPU nodes as long as there is room elsewhere.
"""

import msgspec

from kubesched.framework import (
    MAX_NODE_SCORE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Plugin,
    QueueingHint,
    Status,
)


class GpuPackingArgs(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = "example.com/gpu"
    model_label: str = "gpu-model"
    model_annotation: str = "gpu-model"


class GpuPacking(Plugin):
    name = "GpuPacking"
    args_type = GpuPackingArgs

    def filter(self, state, pod, node):
        models = self._models(pod)
        if not self._wants_gpu(state) or not models or node.labels.get(self.args.model_label) in models:
            return None
        # No pod that leaves changes the model: preemption need not try this node.
        return Status.unresolvable("node(s) had no GPU of a wished model")

    def score(self, state, pod, node):
        total = node.allocatable.get(self.args.resource, 0)
        if not self._wants_gpu(state):
            return 0 if total else MAX_NODE_SCORE
        used = node.requested.get(self.args.resource, 0) + state.pod_info.requests[self.args.resource]
        fullness = min(used / total, 1.0) if total else 0.0
        models = self._models(pod)
        model = node.labels.get(self.args.model_label)
        rank = models.index(model) if model in models else len(models)
        # The wish comes first, fullness decides among nodes of one model. Without a wish every model is the same.
        share = MAX_NODE_SCORE // (len(models) + 1 if models else 1)
        return int(MAX_NODE_SCORE - (rank if models else 0) * share - share * (1.0 - fullness))

    def events_to_register(self):
        appeared = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [ClusterEventWithHint(ClusterEvent("Node", appeared), self._has_wished_model)]

    def details(self, state, pod, node):
        """Shown by `kubesched explain` for nodes that the filter rejects."""
        return {"wished": self._models(pod), "model": node.labels.get(self.args.model_label)}

    def _has_wished_model(self, pod, old, new):
        has = new.metadata.labels.get(self.args.model_label) in self._models(pod)
        return QueueingHint.QUEUE if has else QueueingHint.SKIP

    def _models(self, pod):
        wished = pod.metadata.annotations.get(self.args.model_annotation, "")
        return [model.strip() for model in wished.split(",") if model.strip()]

    def _wants_gpu(self, state):
        return state.pod_info.requests.get(self.args.resource, 0) > 0
