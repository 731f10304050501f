"""Which engine evaluates some data: engines register here, so that the language imports none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from windowkit.language.foreign import library_of, native, wrapped
from windowkit.language.options import checked

if TYPE_CHECKING:
    from windowkit.language.engine import Asked, Engine, Process
    from windowkit.language.rolling import Rolling

__all__ = ["at", "explain", "naming", "process", "register", "run"]

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
    with naming(library_of(native(data))):
        yield here


def run(asked: Asked, *data: Any, **options: Any) -> Any:
    """Evaluate a value of the language by the engine that takes the data.

    Raises
    ------
    InvalidType, InvalidValue
        The engine does not have one of the options that are not None.
    """
    own_data = [native(each) for each in data]
    engine = of(asked, own_data[0])
    own = checked(_engines, engine, "run", asked, options)
    with naming(library_of(own_data[0])):
        made = engine.run(asked, *own_data, **own)
    return made if "result" in own else wrapped(made, data[0])


def at(rolling: Rolling, labels: Any, events: Any, by: tuple[str, ...], time: str, **options: Any) -> Any:
    """Evaluate rolling aggregates for labels, which have these key columns and time; as `run`."""
    own_labels, own_events = native(labels), native(events)
    engine = of(rolling, own_labels)
    own = checked(_engines, engine, "run", rolling, options)
    with naming(library_of(own_labels)):
        made = engine.at(rolling, own_labels, own_events, by=by, time=time, **own)
    return made if "result" in own else wrapped(made, labels)


def explain(asked: Asked, *data: Any, **options: Any) -> str:
    """Describe how a value of the language is evaluated; as `run`."""
    data = tuple(map(native, data))
    engine = of(asked, data[0])
    own = checked(_engines, engine, "explain", asked, options)
    with naming(library_of(data[0])):
        return engine.explain(asked, *data, **own)


def of(asked: Asked, data: Any) -> Engine:
    """Return the engine that takes some data."""
    return next(engine for engine in _engines if engine.takes(asked, data))
