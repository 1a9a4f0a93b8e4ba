"""The in-tree plugins of kube-scheduler v1.36, one a file, all in one shape; `registry` names them.

A file opens with the reasons it gives, then the class (what its answers read, its signature, its extension points in
order, its events), then the hints, then the rule itself as a function of plain objects, then the kernels. A plugin
decides; it never changes the state and never waits, except for PreBind and Bind.
"""
