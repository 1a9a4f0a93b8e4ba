"""Typed Kubernetes objects and the rules that belong to them: only data and pure functions, never I/O.

`core`, `apps`, `storage`, `policy`, `scheduling`, `coordination`, `events` and `resource` hold the structs, one module
a group; `kinds` is the table of kinds and `codec` reads objects. `quantity`, `selectors`, `taints` and `pod_requests`
are the rules that plugins share. Behaviour follows kube-scheduler v1.36.
"""
