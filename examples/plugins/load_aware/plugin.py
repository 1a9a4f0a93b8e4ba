"""Load-aware scoring: the node that really is the idlest wins, whatever has been requested on it.

The load comes from an HTTP endpoint with Prometheus' text format, one line a node (`node_load{node="n1"} 0.75`; 1 is
fully busy). It is read beside the scheduling cycles: a cycle never waits, it sees the last answer. When the endpoint
falls silent, all nodes count as equal rather than by figures of long ago.
"""

import asyncio
import logging
import re
import urllib.request

import msgspec

from kubesched.framework import MAX_NODE_SCORE, Plugin

log = logging.getLogger("load_aware")

_NODE = re.compile(r'\bnode="([^"]*)"')


class LoadAwareArgs(msgspec.Struct, frozen=True, rename="camel"):
    endpoint: str
    metric: str = "node_load"
    interval_seconds: float = 5.0
    timeout_seconds: float = 2.0
    #: Figures older than this do not count.
    stale_after_seconds: float = 30.0


class LoadAware(Plugin):
    name = "LoadAware"
    args_type = LoadAwareArgs

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self._load = {}
        self._read_at_s = float("-inf")
        self._has_failed = False
        try:
            self._task = asyncio.get_running_loop().create_task(self._read_for_ever(), name="LoadAware")
        except RuntimeError:  # offline, where nobody calls anybody
            self._task = None

    def close(self):
        """The plugin is not used any more."""
        if self._task is not None:
            self._task.cancel()

    def score(self, state, pod, node):
        if self.handle.clock.monotonic() - self._read_at_s > self.args.stale_after_seconds:
            return 0
        load = self._load.get(node.name)
        # A node that nobody measures is neither good nor bad.
        return MAX_NODE_SCORE // 2 if load is None else round(MAX_NODE_SCORE * (1.0 - min(max(load, 0.0), 1.0)))

    async def _read_for_ever(self):
        while True:
            await self.read()
            await self.handle.clock.sleep(self.args.interval_seconds)

    async def read(self):
        """One look at the endpoint."""
        try:
            text = await asyncio.to_thread(_get, self.args.endpoint, self.args.timeout_seconds)
            self._load = parse(text, self.args.metric)
        except (OSError, ValueError) as error:
            if not self._has_failed:
                log.warning("cannot read the load of nodes endpoint=%s error=%s", self.args.endpoint, error)
            self._has_failed = True
            return
        self._has_failed = False
        self._read_at_s = self.handle.clock.monotonic()


def parse(text, metric):
    """Load by node; ValueError for a value that is no number."""
    load = {}
    for line in text.splitlines():
        if not line.startswith(metric):
            continue
        labels, _, value = line[len(metric) :].rpartition("}")
        node = _NODE.search(labels)
        if labels.startswith("{") and node:
            load[node[1]] = float(value.split()[0])
    return load


def _get(url, timeout_s):
    with urllib.request.urlopen(url, timeout=timeout_s) as answer:
        return answer.read().decode("utf-8", "replace")
