"""Engines, each of which evaluates what the language describes over one kind of data."""
