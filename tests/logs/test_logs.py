"""Log lines: text and JSON, `-v`, and that no credential gets through."""

import io
import json
import logging
import sys

import pytest

from kubesched import logs


def make_record(message: str, *args: object, level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("kubesched.scheduler", level, "/x/cycle.py", 42, message, args, None)
    record.created = 1767323045.678  # 2026-01-02T03:04:05.678Z
    record.__dict__.update(extra)
    return record


@pytest.fixture
def clean_logging():
    root = logging.getLogger()
    ours = logging.getLogger("kubesched")
    before, level, source = list(root.handlers), ours.level, logging._srcfile
    yield
    logging._srcfile = source
    root.handlers[:] = before
    ours.setLevel(level)
    logging.captureWarnings(False)


TEXT = [
    (
        "decision",
        make_record(
            "pod scheduled pod=%s node=%s evaluated=%d feasible=%d took=%s",
            "default/web-1",
            "n3",
            5,
            3,
            logs.took(0.0012),
        ),
        "2026-01-02T03:04:05.678Z INFO pod scheduled pod=default/web-1 node=n3 evaluated=5 feasible=3 took=1.2ms",
    ),
    ("no fields", make_record("caches synced"), "2026-01-02T03:04:05.678Z INFO caches synced"),
    ("plain percent", make_record("disk 100% full"), "2026-01-02T03:04:05.678Z INFO disk 100% full"),
    ("escaped percent", make_record("at 5%% of nodes=%d", 7), "2026-01-02T03:04:05.678Z INFO at 5% of nodes=7"),
    (
        "sentence with argument",
        make_record("running plugin %s failed pod=%s", "A b", "ns/p"),
        "2026-01-02T03:04:05.678Z INFO running plugin A b failed pod=ns/p",
    ),
    (
        "value with spaces is quoted",
        make_record("not scheduled pod=%s reason=%s", "ns/p", '0/5 nodes: 5 "x"'),
        '2026-01-02T03:04:05.678Z INFO not scheduled pod=ns/p reason="0/5 nodes: 5 \\"x\\""',
    ),
    (
        "extra fields",
        make_record("relisting", level=logging.WARNING, fields={"kind": "pods", "why": None, "forced": True}),
        "2026-01-02T03:04:05.678Z WARN relisting kind=pods why=- forced=true",
    ),
    (
        "both kinds of fields",
        make_record("relisting kind=%s", "pods", fields={"rv": 7}),
        "2026-01-02T03:04:05.678Z INFO relisting kind=pods rv=7",
    ),
    (
        "a value among plain ones that would begin another line",
        make_record("pod scheduled pod=%s node=%s attempt=%d", "a\nb", "n3", 1),
        '2026-01-02T03:04:05.678Z INFO pod scheduled pod="a\\nb" node=n3 attempt=1',
    ),
    (
        "a value among plain ones that would look like a field",
        make_record("pod scheduled pod=%s node=%s attempt=%d", "a node=b", "n3", 1),
        '2026-01-02T03:04:05.678Z INFO pod scheduled pod="a node=b" node=n3 attempt=1',
    ),
    (
        "an empty value among plain ones",
        make_record("pod scheduled pod=%s node=%s", "a", ""),
        '2026-01-02T03:04:05.678Z INFO pod scheduled pod=a node=""',
    ),
    (
        "only numbers",
        make_record("flushed pods=%d events=%d", 3, 0),
        "2026-01-02T03:04:05.678Z INFO flushed pods=3 events=0",
    ),
    (
        "truth among numbers",
        make_record("synced ok=%s n=%d", True, 1),
        "2026-01-02T03:04:05.678Z INFO synced ok=true n=1",
    ),
    ("only fields", make_record("pod=%s", "a"), "2026-01-02T03:04:05.678Z INFO  pod=a"),
    ("float format", make_record("cycle took_s=%.2f", 1.239), "2026-01-02T03:04:05.678Z INFO cycle took_s=1.24"),
    ("error", make_record("bind failed", level=logging.ERROR), "2026-01-02T03:04:05.678Z ERROR bind failed"),
    ("debug", make_record("queue moved", level=logging.DEBUG), "2026-01-02T03:04:05.678Z DEBUG queue moved"),
    (
        "a forged line stays one line",
        make_record("pod %s said msg=%s", "a\nb", "x\n2026-01-02T03:04:05.678Z ERROR all lost"),
        '2026-01-02T03:04:05.678Z INFO pod a\\nb said msg="x\\n2026-01-02T03:04:05.678Z ERROR all lost"',
    ),
]


@pytest.mark.parametrize(("record", "line"), [case[1:] for case in TEXT], ids=[case[0] for case in TEXT])
def test_text(record, line):
    assert logs.TextFormatter().format(record) == line


def test_text_survives_arguments_that_do_not_match_the_template():
    record = make_record("pod scheduled pod=%s node=%s", "only-one")
    with pytest.raises(TypeError):
        logs.TextFormatter().format(record)  # logging's own error handling reports it, as for every formatter


def test_text_indents_a_traceback():
    try:
        raise RuntimeError("boom password=hunter2")
    except RuntimeError:
        record = make_record("plugin raised plugin=%s", "Gpu", level=logging.ERROR)
        record.exc_info = sys.exc_info()
    lines = logs.TextFormatter().format(record).splitlines()
    assert lines[0].endswith("ERROR plugin raised plugin=Gpu")
    assert all(line.startswith("    ") for line in lines[1:])
    assert lines[-1] == "    RuntimeError: boom password=<redacted>"


def test_json_has_the_originals_keys_and_typed_fields():
    record = make_record("pod scheduled pod=%s evaluated=%d fits=%s", "default/web-1", 5, True)
    assert json.loads(logs.JsonFormatter().format(record)) == {
        "ts": 1767323045678.0,
        "caller": "cycle.py:42",
        "level": "INFO",
        "logger": "kubesched.scheduler",
        "msg": "pod scheduled",
        "v": 0,
        "pod": "default/web-1",
        "evaluated": 5,
        "fits": True,
    }


def test_json_error_has_err_and_stack_but_no_v():
    try:
        raise ValueError("no such node")
    except ValueError:
        record = make_record("bind failed msg=%s", "x", level=logging.ERROR)
        record.exc_info = sys.exc_info()
    entry = json.loads(logs.JsonFormatter().format(record))
    assert entry["err"] == "no such node"
    assert "Traceback" in entry["stacktrace"]
    assert "v" not in entry
    assert entry["msg"] == "bind failed"
    assert entry["field.msg"] == "x"


SECRETS = [
    ("bearer", "Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
    ("basic", "header Basic dXNlcjpwYXNzd29yZA== refused", "dXNlcjpwYXNzd29yZA=="),
    ("jwt", "got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl back", "eyJhbGci"),
    ("query", "GET /x?token=abc123def&limit=5", "abc123def"),
    ("yaml", "password: hunter2", "hunter2"),
    ("quoted", '{"password": "hunter 2 \\" x", "a": 1}', "hunter"),
    ("key data", "client-key-data: LS0tLS1CRUdJTi", "LS0tLS1CRUdJTi"),
    ("url", "proxy http://user:hunter2@proxy:3128 refused", "hunter2"),
    ("pem", "x -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- y", "MIIE"),
    ("cut pem", "x -----BEGIN PRIVATE KEY-----\\nMIIE", "MIIE"),
]


@pytest.mark.parametrize(("text", "secret"), [case[1:] for case in SECRETS], ids=[case[0] for case in SECRETS])
@pytest.mark.parametrize("formatter", [logs.TextFormatter(), logs.JsonFormatter()], ids=["text", "json"])
def test_no_secret_gets_through(formatter, text, secret):
    for record in (make_record(text), make_record("failed error=%s", text), make_record("failed", fields={"e": text})):
        line = formatter.format(record)
        assert secret not in line
        assert "<redacted>" in line


def test_a_field_named_token_is_redacted_in_json_too():
    line = logs.JsonFormatter().format(make_record("auth token=%s node=%s", "abc123", "n1"))
    assert json.loads(line)["token"] == "<redacted>"
    assert json.loads(line)["node"] == "n1"


@pytest.mark.parametrize(
    "text",
    [
        "pod scheduled pod=default/token-service node=key-1",
        "keys 3",
        "authority https://10.0.0.1:6443/api",
        "basic checks ok",
    ],
)
def test_ordinary_lines_are_left_alone(text):
    assert logs.redact(text) == text


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.00085, "850us"), (0.0012, "1.2ms"), (0.9999, "999.9ms"), (3.44, "3.4s"), (0, "0us")]
)
def test_took(seconds, shown):
    assert logs.took(seconds) == shown


@pytest.mark.parametrize(
    ("verbosity", "level"), [(0, 20), (1, 19), (2, 18), (3, 17), (4, logging.DEBUG), (5, 9), (10, 4), (99, 1)]
)
def test_verbosity_maps_to_levels(verbosity, level):
    assert logs.level_of(verbosity) == level


@pytest.mark.parametrize("verbosity", [0, 1, 2, 3, 4, 7, 10])
def test_json_v_is_the_verbosity_that_shows_the_line(verbosity):
    line = logs.JsonFormatter().format(make_record("x", level=logs.level_of(verbosity)))
    assert json.loads(line)["v"] == verbosity


def test_setup_shows_lines_up_to_the_verbosity_and_only_warnings_of_others(clean_logging):
    stream = io.StringIO()
    logs.setup("text", verbosity=2, stream=stream)
    logs.setup("text", verbosity=2, stream=stream)  # a second call replaces the first
    ours, theirs = logging.getLogger("kubesched.client"), logging.getLogger("some.library")
    ours.info("one")
    ours.log(logs.level_of(2), "two")
    ours.log(logs.level_of(3), "three")
    theirs.info("four")
    theirs.warning("five")
    assert [line.split(" ", 2)[2] for line in stream.getvalue().splitlines()] == ["one", "two", "five"]


def test_setup_json(clean_logging):
    stream = io.StringIO()
    logs.setup("json", stream=stream)
    logging.getLogger("kubesched.x").info("hello n=%d", 3)
    entry = json.loads(stream.getvalue())
    assert (entry["msg"], entry["n"]) == ("hello", 3)


@pytest.mark.parametrize(("format", "verbosity"), [("xml", 0), ("text", -1)])
def test_setup_refuses(format, verbosity, clean_logging):
    with pytest.raises(ValueError, match=r"unknown logging format|negative"):
        logs.setup(format, verbosity)


def test_what_is_no_http_is_told_in_a_line(clean_logging):
    from aiohttp.http_exceptions import BadHttpMessage

    out = io.StringIO()
    logs.setup("text", 0, out)
    server = logging.getLogger("aiohttp.server")
    for error in (BadHttpMessage("Invalid method"), ValueError("a bug of ours")):
        try:
            raise error
        except Exception:
            server.exception("Error handling request from %s", "10.0.0.7")
    lines = out.getvalue().splitlines()
    assert " WARN Error handling request from 10.0.0.7 error=" in lines[0] and "Invalid method" in lines[0]
    assert " ERROR Error handling request" in lines[1] and "Traceback" in lines[2]
