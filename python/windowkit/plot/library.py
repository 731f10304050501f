"""matplotlib, which draws: the extra ``plot``, imported when a picture is requested."""

from __future__ import annotations

from typing import Any

from windowkit.errors import WindowKitError

__all__ = ["MissingMatplotlibError", "matplotlib_pyplot"]


class MissingMatplotlibError(WindowKitError, ImportError):
    """A picture was requested, but matplotlib cannot be imported."""


def matplotlib_pyplot() -> Any:
    """Return ``matplotlib.pyplot``.

    Raises
    ------
    MissingMatplotlibError
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingMatplotlibError(
            f"windowkit.plot: matplotlib cannot be imported ({error}); run pip install 'windowkit[plot]'"
        ) from error
    return pyplot
