"""What every test can rely on."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import hypothesis
import pytest

from kubesched import build

# A run says the same as the run before, on any machine. `--hypothesis-profile=explore` looks at other examples.
for name, is_fixed in (("any machine", True), ("explore", False)):
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile(name, derandomize=is_fixed, deadline=None, suppress_health_check=slow)
hypothesis.settings.load_profile("any machine")


def pytest_report_header() -> str:
    return f"kubesched: {build.kind()} build"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`pure_only("why")`: a few tests replace parts of a class, which compiled classes do not allow."""
    if build.kind() == "pure":
        return
    for item in items:
        if (marked := item.get_closest_marker("pure_only")) is not None:
            item.add_marker(pytest.mark.skip(reason=f"pure build only: {marked.args[0]}"))


@pytest.fixture(autouse=True)
def logging_as_shipped() -> None:
    """A test that sets logging up leaves nothing of it to the next."""
    logging.disable(logging.NOTSET)
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if handler.get_name() == "kubesched"]:
        root.removeHandler(handler)
    for name in [name for name in root.manager.loggerDict if name.split(".")[0] == "kubesched"]:
        logger = logging.getLogger(name)
        logger.setLevel(logging.NOTSET)
        logger.disabled, logger.propagate = False, True


class _Bugs(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "is_bug", False):
            self.told.append(self.format(record))


@pytest.fixture(autouse=True)
def no_bug_is_logged(logging_as_shipped: None) -> Iterator[list[str]]:
    """What production code survives is a failure here; a test that is about surviving it clears the list."""
    handler, log = _Bugs(), logging.getLogger("kubesched.scheduler")
    log.addHandler(handler)
    yield handler.told
    log.removeHandler(handler)
    assert not handler.told, "\n".join(handler.told)
