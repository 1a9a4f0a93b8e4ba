"""The list of known differences in docs/apiserver.md is that of known_differences.txt.

python -m tests.recordings.test_documentation     writes it
"""

from __future__ import annotations

from pathlib import Path

from tests.recordings.scenario import known_differences, scenarios

PAGE = Path(__file__).parents[2] / "docs" / "apiserver.md"
MARK = "<!-- generated from tests/recordings/known_differences.txt by tests/recordings/test_documentation.py -->\n"


def table() -> str:
    rows = [
        f"| {name} {index} | `{(exchange := scenarios()[name].exchanges[index]).method} {exchange.path}` | {reason} |"
        for name, reasons in known_differences().items()
        for index, reason in reasons.items()
    ]
    compared = sum(len(s.exchanges) for name, s in scenarios().items() if name[0] in "acd")
    head = f"{compared - len(rows)} of {compared} exchanges are equal. The others:\n"
    return "\n".join(["", head, "| exchange | request | why |", "| --- | --- | --- |", *rows]) + "\n"


def test_page_lists_the_known_differences() -> None:
    assert PAGE.read_text().partition(MARK)[2] == table()


if __name__ == "__main__":
    before, mark, _ = PAGE.read_text().partition(MARK)
    PAGE.write_text(before + mark + table())
