"""Results as HTML pages: a fitted model, its predictions for a file, a comparison of runs.

Every page is one file that needs no other: style, script and drawings are inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PAGE, EVIDENCE = "report.html", "evidence.json.gz"


def attempted(make: Callable[[], Path]) -> tuple[str | None, list[str]]:
    """Write a page beside a result: return its path, or a note on why there is none. The result is worth more."""
    try:
        return str(make()), []
    except Exception as error:
        return None, [f"the page could not be written ({type(error).__name__}: {error})."]
