"""Log lines that a tired person can read and a machine can parse.

Everything in kubesched logs through the standard `logging` under `kubesched.<package>`. A message is a short sentence
followed by its fields, written as one %-template:

    log.info("pod scheduled pod=%s node=%s evaluated=%d took=%s", key, node, evaluated, logs.took(seconds))

or, where the fields vary, `log.info("pod scheduled", extra=fields(pod=key, node=node))`. The formatters take the fields
apart again: `text` quotes values that need it, `json` writes the line as the original's `--logging-format json` does.
Nothing else in kubesched configures logging, and no formatter lets a credential through.
"""

from kubesched.logs.formats import JsonFormatter, TextFormatter, fields, took
from kubesched.logs.redact import redact
from kubesched.logs.setup import FORMATS, level_of, setup

__all__ = ["FORMATS", "JsonFormatter", "TextFormatter", "fields", "level_of", "redact", "setup", "took"]
