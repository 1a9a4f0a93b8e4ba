"""The smallest plugins there are: two that score, one of them with a normalisation of its own."""

from kubesched.framework import MAX_NODE_SCORE, Plugin


class MyCustomPluginA(Plugin):
    """Likes nodes with few pods. Scores are in 0..100 already."""

    name = "MyCustomPluginA"

    def score(self, state, pod, node):
        return max(0, MAX_NODE_SCORE - len(node.pods))


class MyCustomPluginB(Plugin):
    """Likes big nodes: the raw score is the number of cores, the biggest node gets 100."""

    name = "MyCustomPluginB"

    def score(self, state, pod, node):
        return node.allocatable.get("cpu", 0) // 1000

    def normalize_score(self, state, pod, nodes, scores):
        highest = int(scores.max())
        return scores if highest == 0 else scores * MAX_NODE_SCORE // highest
