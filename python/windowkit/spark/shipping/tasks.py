"""How a task gets to Spark's workers: in a wrapping that needs nothing there, and says what is missing.

Spark pickles what `mapInArrow` is given, and classes of windowkit by name: where a worker lacks windowkit,
Spark would report a module that cannot be found, deep in a traceback, and where it has another version, of
whatever first differs. So the task is pickled by itself, and wrapped in a function of a function, which
pickles by value and imports windowkit as its first step. So are the classes of a data source.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from windowkit import _native
from windowkit.arrow.validation import checked
from windowkit.errors import InvalidValue, WindowKitError
from windowkit.language.engines import naming
from windowkit.language.query import Query

__all__ = [
    *("in_one_line", "importing", "keep_loaded", "loaded"),
    *("named", "packed_task", "running", "shipped", "sound"),
]

Batches = Iterator[pa.RecordBatch]


def shipped(task: Any, what: str | None = None) -> Callable[[Batches], Batches]:
    """Return `task` as a function for ``mapInArrow``.

    Parameters
    ----------
    task : callable
        Yields batches made of the batches of a partition. It is pickled by itself.
    what : str, optional
        What errors call the job that it is part of; by default its attribute ``query``, described.

    Notes
    -----
    What it raises, besides what `task` does: ``RuntimeError`` where pyarrow or windowkit cannot be imported,
    or windowkit has another version; with the host, the interpreter, and both versions.
    """
    payload = packed_task(task, what or in_one_line(task.query))
    there, arrival = importing(), Arrival()

    # Nothing in this function may refer to a name of this module: that would be pickled too, and import it.
    def run(batches):  # type: ignore[no-untyped-def]
        assert arrival is not None
        there()
        from windowkit.spark.shipping.tasks import running, sound

        yield from running(payload, sound(batches))

    # Spark's plans show a function by its name.
    run.__name__ = run.__qualname__ = type(task).__name__
    return run


class Arrival:
    """What raises where it is unpickled if pyarrow is missing there.

    Spark's workers unpickle a function before they import pyarrow, whose absence they report without saying
    which interpreter lacks it.
    """

    def __reduce__(self) -> tuple[Callable[[], str], tuple[()]]:
        def arrived() -> str:
            import socket
            import sys
            from importlib import import_module

            where = f"the worker on host {socket.gethostname()} that runs {sys.executable}"
            try:
                return str(import_module("pyarrow").__version__)
            except ImportError as error:
                raise RuntimeError(
                    f"windowkit: {where} cannot import pyarrow ({error}); install windowkit there, which "
                    "brings pyarrow, or have PYSPARK_PYTHON name an interpreter that has it"
                ) from None

        return arrived, ()


def importing() -> Callable[[], None]:
    """Return a function that pickles by value, and raises where windowkit is not what it is here."""
    wanted = _native.__version__

    def there() -> None:
        # What is installed there is found out, and is no dependency of this module.
        import socket
        import sys
        from importlib import import_module

        where = f"the worker on host {socket.gethostname()} that runs {sys.executable}"
        advice = f"install windowkit {wanted} there, or ship an environment that has it"
        try:
            found = import_module("windowkit").__version__
        except ImportError as error:
            if "failed to map segment" in str(error) or "allocate memory" in str(error):
                advice = (
                    "memory may be short there: spark.executor.pyspark.memory, which the cores of an "
                    "executor share, limits the address space of a worker"
                )
            raise RuntimeError(f"windowkit: {where} cannot import windowkit ({error}); {advice}") from None
        if found != wanted:
            raise RuntimeError(f"windowkit: {where} has windowkit {found}, the driver has {wanted}; {advice}")

    return there


def packed_task(task: Any, what: str) -> bytes:
    """Return a task, and what errors call the job that it is part of, for `loaded`."""
    payload: bytes = cloudpickle.dumps((task, what))  # type: ignore[no-untyped-call]  # of pyspark's copy
    return payload


def running(payload: bytes, given: Any) -> Batches:
    """Run a task in a worker, on its batches or on what else it takes; what goes wrong says in which query.

    Raises
    ------
    WindowKitError
        Of the class that the task raised, with what it is part of: a query and its columns.
    MemoryError
        There was not enough; with the same.
    """
    task, what = loaded(payload)
    with named(what):
        yield from task(given)
    keep_loaded()


@cache
def keep_loaded() -> None:
    """Take what a worker has loaded out of the reach of garbage collection, once.

    Workers collect garbage after each task, through some hundred thousand objects of pyspark, pandas and
    pyarrow that are needed to the end.
    """
    gc.freeze()


def loaded(payload: bytes) -> tuple[Any, str]:
    """Return what `packed_task` packed.

    Raises
    ------
    InvalidValue
        Modules that it needs are missing here.
    """
    try:
        task, what = pickle.loads(payload)
    except (ImportError, AttributeError) as error:
        raise InvalidValue(
            f"query: a worker cannot load it ({error}); modules that user-defined functions import must be "
            "installed on the workers, or pickled by value"
        ) from error
    return task, what


@contextmanager
def named(what: str) -> Iterator[None]:
    """Say of what goes wrong in a worker in which query it did, by Spark's names of types; see `running`."""
    try:
        with naming("spark"):
            yield
    except WindowKitError as error:
        raise type(error)(f"{error}; in the {what}") from error
    except MemoryError as error:
        raise MemoryError(
            f"a worker ran out of memory ({error}); spark.executor.pyspark.memory, which the cores "
            f"of an executor share, limits it, and more shuffle partitions divide the keys; in the {what}"
        ) from error
    except pa.ArrowException as error:
        raise InvalidValue(f"data: {error}; in the {what}") from error
    except (SystemExit, KeyboardInterrupt) as error:
        # Of a user's function: it must not end a worker without a word.
        raise InvalidValue(f"data: {error!r} was raised; in the {what}") from error


def sound(batches: Batches) -> Batches:
    """Yield the batches of another process, whose buffers must be as long as they need to be."""
    for batch in batches:
        yield checked("data", batch, full=False)


def in_one_line(query: Query) -> str:
    """Return a query in one line.

    Examples
    --------
    >>> import windowkit as wk
    >>> in_one_line(wk.query(by="k", time="ts", windows=wk.tumbling(10), aggs=[wk.sum("v"), wk.count()]))
    'query by k over ts, windows tumbling(10), answers sum(v), count(*)'
    """
    windows = ", ".join(map(str, query.windows))
    answers = ", ".join(map(str, query.aggs))
    keys = ", ".join(query.by) or "nothing"
    return f"query by {keys} over {query.time}, windows {windows}, answers {answers}"
