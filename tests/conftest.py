"""What every test can rely on."""

from __future__ import annotations

import logging

import pytest


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
