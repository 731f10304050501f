"""Fails, with what to install, where pyspark is missing; imported before all else of `windowkit.spark`."""

from windowkit.errors import WindowKitError

__all__ = ["MissingPySparkError"]


class MissingPySparkError(WindowKitError, ImportError):
    """`windowkit.spark` was imported where pyspark cannot be."""


try:
    import pyspark.sql  # noqa: F401
except ImportError as error:
    raise MissingPySparkError(
        f"windowkit.spark: pyspark cannot be imported ({error}); run pip install 'windowkit[spark]'"
    ) from error
