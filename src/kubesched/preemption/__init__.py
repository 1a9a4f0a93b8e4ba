"""Preemption: room for a pod that fits nowhere, by taking less important pods off a node.

For PostFilter plugins to use; DefaultPreemption is one of them. `preemption` ties the steps together:

    may this pod preempt? ─► `search`: nodes where it would help, with their victims (`dry_run`, `budgets`)
                          ─► extenders ─► `choice`: which of these nodes ─► `execution`: ask the victims to go

What plugins may want to do otherwise is in `rules`. Finding changes nothing and costs no calls, so explanations use it
as it is; only `execution` acts.
"""

from kubesched.preemption.candidate import Candidate
from kubesched.preemption.preemption import Finding, Preemption
from kubesched.preemption.rules import Rules

__all__ = ["Candidate", "Finding", "Preemption", "Rules"]
