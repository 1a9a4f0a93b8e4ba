"""`--logging-format` and `-v` become one handler on stderr.

Called once by a command before anything else is started. A library user who never calls it keeps whatever logging the
own program has set up: importing kubesched configures nothing.
"""

import logging
import sys
from typing import IO

from kubesched.logs.formats import JsonFormatter, TextFormatter

FORMATS: dict[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}
_OURS = "kubesched"
_SOURCE_OF_LOGGING = logging._srcfile


def setup(format: str = "text", verbosity: int = 0, stream: IO[str] | None = None) -> logging.Handler:
    """Send every record of kubesched at `-v` `verbosity`, and warnings of everything else, to `stream` (stderr).

    Calling it again replaces what an earlier call set up; handlers of others are left alone.
    Raises ValueError for an unknown format or a negative verbosity.
    """
    if format not in FORMATS:
        raise ValueError(f"unknown logging format {format!r}: must be one of {', '.join(FORMATS)}")
    if verbosity < 0:
        raise ValueError(f"verbosity must not be negative, got {verbosity}")
    handler = _Handler(sys.stderr if stream is None else stream)
    handler.setFormatter(FORMATS[format]())
    handler.set_name(_OURS)
    root = logging.getLogger()
    for old in [h for h in root.handlers if h.get_name() == _OURS]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    logging.getLogger(_OURS).setLevel(level_of(verbosity))
    logging.captureWarnings(True)
    logging.getLogger("aiohttp.server").addFilter(_told_in_a_line)
    # What neither format shows need not be found out for each line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None if format == "text" else _SOURCE_OF_LOGGING  # None: who calls is not looked for
    return handler


class _Handler(logging.StreamHandler[IO[str]]):
    """Leaves it to the stream to flush at the end of a line, if it does."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.stream.write(self.format(record) + self.terminator)
            if not getattr(self.stream, "line_buffering", False):
                self.flush()
        except RecursionError:
            raise
        except Exception:
            self.handleError(record)


def _told_in_a_line(record: logging.LogRecord) -> bool:
    """What a client sends that is no HTTP is a warning, without our traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if type(error).__module__ == "aiohttp.http_exceptions":
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = f"{record.getMessage()} error=%s", (error,)
        record.exc_info = record.exc_text = None
    return True


def level_of(verbosity: int) -> int:
    """The level a message of klog verbosity `verbosity` has here: 0 is INFO, 4 is DEBUG, 10 shows everything."""
    if verbosity <= 3:
        return logging.INFO - max(verbosity, 0)
    return max(1, logging.DEBUG + 4 - verbosity)
