"""An operator of streams and all that may happen to it, drawn from one seed, against the definition.

A run is an operator with queries of any kind, a join of two streams, or a stream without duplicates, and a
sequence of calls: rows, watermarks, punctuations, queries that come and go, late rows taken, snapshots,
restarts, and kills, after which the calls since the last snapshot are made again. Some calls are interrupted
by a signal, and in some a user-defined function or a reader of rows raises: a call that fails must leave the
operator as it was, and is made again. What a consumer then holds must be what the queries mean (simulations
of this kind: Zhou et al., FoundationDB, SIGMOD 2021, §4).

Operators of queries are of every window type and function, in order or not, with queries that come and go.
Besides, these are drawn, each with what must hold:

- results that none replaces (``updates=False``): each row is in one session, and no result is an update;
- rows that retract others: windows are those of the rows that remain;
- results that discard: each covers some rows of its window, and together they cover all, each once;
- results that wait: once none can wait any more, all that is final is there; those of ``later`` are what was
  final then; a final result ends after the watermark of the results before it;
- keys that are dropped for want of memory: whoever has results has all of them, and whether a key is kept at
  a share is the same whatever happens; where rows are, results are exact before that, and of windows after;
- slices beside rows, gaps from a column, limits of late rows, and local windows where the clocks change.

A seed determines a run but for the moments of interrupts, on which nothing may depend. In `tests`,
``python -m support.simulation`` runs new seeds for some time, and ``python -m support.simulation SEED`` one.
"""

from support.simulation.hunt import fails, passes
from support.simulation.seeds import simulate

__all__ = ["fails", "passes", "simulate"]
