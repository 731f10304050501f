"""What several threads may use at a time: no call waits for ever, whatever the others do."""

from __future__ import annotations

import os

import pytest

from support.programs import program

WAITING = """
    import sys, threading

    import numpy as np
    import pyarrow as pa

    from windowkit import kernels

    window = kernels.Window("max", pa.int64(), algorithm="two_stacks")
    values = pa.array(np.arange(8_000_000))
    ends = []

    def look():
        while not ends:
            len(window), window.null_count

    threads = [threading.Thread(target=look, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    # Longer than the time between two looks whether to end, each of which needs the GIL.
    window.slide(values, 1000)
    ends.append(True)
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert len(window) == 1000
"""

FORKING = """
    import os, signal, threading, time

    import numpy as np
    import pyarrow as pa

    import windowkit as wk
    from windowkit import kernels, partition

    numbers, keys = pa.array(np.arange(2_000_000)), pa.array(np.arange(300_000).astype(str))
    window = kernels.Window("max", pa.int64(), algorithm="two_stacks")
    sketch = wk.HyperLogLog(21)
    partitioner = partition.Partitioner(4)
    calls = [
        (lambda: window.slide(numbers, 1000), lambda: len(window)),
        (lambda: sketch.update(keys), sketch.estimate),
        (lambda: partitioner.assign(keys), partitioner.loads),
    ]
    for long, short in calls:
        ends, refused = [], 0

        def loop():
            while not ends:
                long()

        thread = threading.Thread(target=loop)
        thread.start()
        for _ in range(20):
            time.sleep(0.02)
            process = os.fork()
            if process == 0:
                # A call that waits ends here.
                signal.alarm(30)
                try:
                    short()
                except wk.InvalidValue as error:
                    os._exit(3 if "another thread was using the object" in str(error) else 4)
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            assert status in (0, 3), status
            refused += status == 3
            if refused == 2:
                break
        ends.append(True)
        thread.join()
        assert refused, "no fork came during a call"
        # Here nothing was lost.
        short()
"""


@pytest.mark.slow
def test_threads_that_wait_do_not_hold_what_the_other_needs() -> None:
    program(WAITING)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on Windows")
def test_a_fork_during_the_call_of_another_thread_is_an_error_and_no_deadlock() -> None:
    program(FORKING)
