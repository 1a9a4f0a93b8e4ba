"""`/healthz`, `/livez` and `/readyz`: named checks, one by one or together, as the original answers them.

    /readyz            ok, or which check fails (500)
    /readyz?verbose    a line a check
    /readyz?exclude=x  without that one
    /readyz/x          that one alone

A check says what is wrong, or nothing. Outsiders learn that it failed; why is for the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kubesched.metrics.series import Family, counters, gauges
from kubesched.serving.answers import Answer, Asked, not_found, plain, text

log = logging.getLogger("kubesched.serving")

GROUPS: Final = ("healthz", "livez", "readyz")


class Check(NamedTuple):
    name: str
    #: What is wrong; empty when all is well.
    finding: Callable[[], str]


PING: Final = Check("ping", lambda: "")


class HealthChecks:
    """The checks of each group; a group without any answers to `ping`."""

    def __init__(
        self, *, healthz: Iterable[Check] = (), livez: Iterable[Check] = (), readyz: Iterable[Check] = ()
    ) -> None:
        given = {"healthz": tuple(healthz), "livez": tuple(livez), "readyz": tuple(readyz)}
        self._groups = {group: checks or (PING,) for group, checks in given.items()}
        self._failing: set[tuple[str, str]] = set()
        self._result = gauges("kubernetes_healthcheck", "[STABLE] 1 while the check passes, else 0.", "name", "type")
        self._results = counters(
            "kubernetes_healthchecks_total", "[STABLE] Results of each check.", "name", "status", "type"
        )

    @property
    def families(self) -> tuple[Family, ...]:  # type: ignore[type-arg]
        """For `/metrics/slis`."""
        return (self._result, self._results)

    def answer(self, asked: Asked) -> Answer:
        group, _, name = asked.path.strip("/").partition("/")
        checks = self._groups[group]
        if not name:
            return self._all(group, checks, asked)
        for check in checks:
            if check.name == name:
                finding = self._run(group, check)
                return text(f"internal server error: {finding}\n", 500) if finding else plain("ok")
        return not_found()

    def _all(self, group: str, checks: tuple[Check, ...], asked: Asked) -> Answer:
        excluded = {name for item in asked.query.get("exclude", ()) for name in item.split(",") if name}
        lines = []
        failed = False
        for check in checks:
            if check.name in excluded:
                excluded.discard(check.name)
                lines.append(f"[+]{check.name} excluded: ok")
            elif self._run(group, check):
                failed = True
                lines.append(f"[-]{check.name} failed: reason withheld")
            else:
                lines.append(f"[+]{check.name} ok")
        if excluded:
            names = ",".join(f'"{name}"' for name in sorted(excluded))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if failed:
            return text("\n".join([*lines, f"{group} check failed", ""]), 500)
        if "verbose" not in asked.query:
            return text("ok")
        return text("\n".join([*lines, f"{group} check passed", ""]))

    def _run(self, group: str, check: Check) -> str:
        finding = check.finding()
        self._result.labels(check.name, group).set(0 if finding else 1)
        self._results.labels(check.name, "error" if finding else "success", group).inc()
        known = (group, check.name)
        if finding and known not in self._failing:
            self._failing.add(known)
            log.warning("health check fails check=%s/%s finding=%s", group, check.name, finding)
        elif not finding and known in self._failing:
            self._failing.discard(known)
            log.info("health check passes again check=%s/%s", group, check.name)
        return finding
