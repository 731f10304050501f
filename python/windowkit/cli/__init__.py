"""The command line: ``windowkit aggregate`` runs a query over files, here or in Spark."""

from windowkit.cli.program import main

__all__ = ["main"]
