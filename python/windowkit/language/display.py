"""How values show themselves in notebooks: as tables of facts, and as text that keeps its lines."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["Lines", "facts"]


class Lines(str):
    """Text of several lines, which a notebook shows as they are.

    Examples
    --------
    >>> Lines("a < b")._repr_html_()
    '<pre>a &lt; b</pre>'
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def facts(title: str, rows: Iterable[tuple[str, Iterable[object]]]) -> str:
    """Return an HTML table that says one thing or several under each name.

    Examples
    --------
    >>> facts("Query", [("by", ["k"])])
    '<table><caption>Query</caption><tr><th>by</th><td><code>k</code></td></tr></table>'
    """
    body = "".join(
        f"<tr><th>{escape(name)}</th><td>"
        f"{'<br>'.join(f'<code>{escape(str(each))}</code>' for each in several)}</td></tr>"
        for name, several in rows
    )
    return f"<table><caption>{escape(title)}</caption>{body}</table>"
