"""Engines evaluate queries. They register here, so that the language imports none of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from windowkit.errors import InvalidValue
from windowkit.language.foreign import library_of

__all__ = ["Engine", "evaluate", "find", "naming", "register"]


@dataclass(frozen=True)
class Engine:
    """What evaluates queries over one kind of data.

    Parameters
    ----------
    takes : callable
        Whether some data is of that kind; it must not import a library to find out.
    calls : mapping of str to callable
        By the method of `windowkit.Query` that they implement. A method whose argument is data passes the
        query and the data.
    options : collection of str
        The keyword arguments of these methods that the engine understands.
    otherwise : str
        What the error says of another option: with which data it is given, and why that is refused.
    """

    takes: Callable[[Any], bool]
    calls: Mapping[str, Callable[..., Any]]
    options: Collection[str] = ()
    otherwise: str = ""


_engines: list[Engine] = []


def register(engine: Engine) -> None:
    """Add an engine; of several that take some data, the one that was registered last evaluates it."""
    _engines.append(engine)


@contextmanager
def naming(library: str) -> Iterator[None]:
    """Let errors within, on this thread, name types as a library does: pyarrow, polars or spark."""
    name_types = chosen("name_types", None).calls["name_types"]
    before = name_types(library)
    try:
        yield
    finally:
        name_types(before)


def find(call: str, data: Any = None) -> Callable[..., Any]:
    """Return what implements a method of `windowkit.Query`, and names types as the library of `data` does."""
    implementation = chosen(call, data).calls[call]

    def called(*given: Any, **options: Any) -> Any:
        with naming(library_of(data)):
            return implementation(*given, **options)

    return called


def evaluate(call: str, query: Any, data: Any, **options: Any) -> Any:
    """Call a method of the engine that takes `data`, with those of `options` that are not None.

    Raises
    ------
    InvalidValue
        The engine does not understand one of them.
    """
    engine = chosen(call, data)
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name not in engine.options:
            raise InvalidValue(f"{name}: {value!r} is given {engine.otherwise}")
    with naming(library_of(data)):
        return engine.calls[call](query, data, **given)


def chosen(call: str, data: Any) -> Engine:
    return next(engine for engine in reversed(_engines) if call in engine.calls and engine.takes(data))
