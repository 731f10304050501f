"""Text forms of windows, aggregates, comparisons, lengths and moments are read, or refused as bad input.

What is read has a text form that reads as the same value. libFuzzer drives Python through Atheris:

    python fuzz/fuzz_targets/parsers.py -max_total_time=60
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["windowkit"]):
    import windowkit as wk
    from windowkit.files import comparisons
    from windowkit.language import aggregates, moments, windows

FORMS = (
    "sliding(1 hour 30 minutes, 1 minute, zone=Europe/Berlin)",
    "tumbling(1 week, week_start=sunday) as `a week`",
    "sliding(100 rows, 1.5 seconds, start_time=2024-01-31T12:00:00.5)",
    "session(30 minutes, at_most=4 hours)",
    "between(enter=hot, leave=cold)",
    "approx_quantile(`a b`, 0.5) where v as x",
    "top_k(ip, 10)",
    "`a``b` not in ('x', \"y\", 3)",
    "v >= -1e3",
    "2024-01-31 12:00+01:00",
    "1 day -3 hours",
)


def one_input(data: bytes) -> None:
    """Parse a text."""
    text = data.decode("utf-8", "surrogateescape" if len(data) % 2 else "replace")
    for parse in (windows.parse, aggregates.parse):
        try:
            value = parse(text)
        except wk.WindowKitError:
            continue
        assert parse(str(value)) == value, (text, str(value))
    for read in (wk.tumbling, comparisons.parse, lambda text: moments.place("start_time", text)):
        with suppress(wk.WindowKitError):
            read(text)


def main() -> None:
    """Run the fuzzer, which never returns; it starts from the forms above, and knows their words."""
    corpus = Path(__file__).parents[1] / "corpus" / "parsers"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, form in enumerate(FORMS):
        (corpus / f"form-{number}").write_text(form)
    words = {*re.findall(r"\w+", " ".join(FORMS)), *aggregates.__all__, *windows.__all__}
    dictionary = corpus.with_suffix(".dict")
    dictionary.write_text("".join(f'"{word}"\n' for word in sorted(words)))
    artifacts = corpus.parents[1] / "artifacts" / "parsers"
    artifacts.mkdir(parents=True, exist_ok=True)
    options = [f"-dict={dictionary}", f"-artifact_prefix={artifacts}/", "-timeout=10"]
    atheris.Setup([*sys.argv, *options, str(corpus)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
