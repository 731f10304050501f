"""Engines evaluate what the language describes; they register here, so that the language imports none."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from windowkit.errors import InvalidValue
from windowkit.language.checks import no_option
from windowkit.language.foreign import library_of

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Engine", "Process", "at", "explain", "naming", "process", "register", "run"]


class Engine(Protocol):
    """What evaluates queries, rolling aggregates, joins and removals of duplicates over one kind of data."""

    def takes(self, asked: object, data: Any) -> bool:
        """Whether it evaluates `asked` over `data`; it must not import a library to find out."""

    def options(self, asked: object) -> Collection[str]:
        """Return the options that it has for `asked`."""

    def refusal(self, asked: object, option: str) -> str:
        """Return what the error says of another option: with which data it is given, and why not."""

    def run(self, asked: Any, *data: Any, **options: Any) -> Any:
        """Evaluate a value of the language."""

    def at(self, rolling: Any, labels: Any, events: Any, **options: Any) -> Any:
        """Evaluate rolling aggregates for labels."""

    def explain(self, asked: Any, *data: Any, **options: Any) -> str:
        """Describe how a value of the language is evaluated."""


class Process(Engine, Protocol):
    """The engine of this process, which takes all data, and alone has these calls."""

    def batches(self, asked: Any, *data: Any, **options: Any) -> pyarrow.RecordBatchReader:
        """Evaluate a value of the language batch by batch."""

    def schema(self, asked: Any, *data: Any) -> pyarrow.Schema:
        """Return the schema of a result."""

    def operator(self, asked: Any, *schemas: Any, **options: Any) -> Any:
        """Return what evaluates a value of the language over a stream."""

    def slices(self, query: Any, data: Any, **options: Any) -> pyarrow.Table:
        """Aggregate rows to slices."""

    def plot(self, query: Any, data: Any, **options: Any) -> Any:
        """Draw the windows of a query."""

    def wids(self, window: Any, times: Any, validate: bool) -> Any:
        """Return the window ids of times."""

    def extent(self, window: Any, ids: Any, time_type: Any, validate: bool) -> Any:
        """Return the extents of windows."""

    def zone_name(self, zone: str) -> str:
        """Return what a time zone is called."""

    def name_types(self, library: str) -> str:
        """Let errors on this thread name types as a library does; return as which one they did before."""


_engines: list[Engine] = []
_process: list[Process] = []


def register(here: Process, *others: Engine) -> None:
    """Make these the engines, of which the first that takes some data evaluates it; the last is `here`."""
    _engines[:] = [*others, here]
    _process[:] = [here]


@contextmanager
def naming(library: str) -> Iterator[None]:
    """Let errors within, on this thread, name types as a library does: pyarrow, polars or spark."""
    (here,) = _process
    before = here.name_types(library)
    try:
        yield
    finally:
        here.name_types(before)


@contextmanager
def process(data: Any = None) -> Iterator[Process]:
    """Let the engine of this process be used, whose errors name types as the library of `data` does."""
    (here,) = _process
    with naming(library_of(data)):
        yield here


def run(asked: Any, *data: Any, **options: Any) -> Any:
    """Evaluate a value of the language by the engine that takes the data.

    Raises
    ------
    InvalidType, InvalidValue
        The engine does not have one of the options that are not None.
    """
    engine = of(asked, data[0])
    given = had(engine, asked, options)
    with naming(library_of(data[0])):
        return engine.run(asked, *data, **given)


def at(rolling: Any, labels: Any, events: Any, by: tuple[str, ...], time: str, **options: Any) -> Any:
    """Evaluate rolling aggregates for labels, which have these key columns and time; as `run`."""
    engine = of(rolling, labels)
    given = had(engine, rolling, options)
    with naming(library_of(labels)):
        return engine.at(rolling, labels, events, by=by, time=time, **given)


def explain(asked: Any, *data: Any, **options: Any) -> str:
    """Describe how a value of the language is evaluated; as `run`."""
    engine = of(asked, data[0])
    given = had(engine, asked, options)
    with naming(library_of(data[0])):
        return engine.explain(asked, *data, **given)


def of(asked: object, data: Any) -> Engine:
    """Return the engine that takes some data."""
    return next(engine for engine in _engines if engine.takes(asked, data))


def had(engine: Engine, asked: object, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are not None, all of which the engine has."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in options:
        if not any(name in each.options(asked) for each in _engines):
            known = dict.fromkeys(option for each in _engines for option in each.options(asked))
            raise no_option(name, known)
    for name, value in given.items():
        if name not in engine.options(asked):
            raise InvalidValue(f"{name}: {value!r} is given {engine.refusal(asked, name)}")
    return given
