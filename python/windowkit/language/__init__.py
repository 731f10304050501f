"""What queries are made of: values without data, which import no engine, nor the native core.

A query, a rolling aggregation, a join and a removal of duplicates are made of other values: windows,
aggregates, frames, lengths, expressions, and policies for streams. They check the shape of their arguments;
whether they fit some data, the core checks once it has a schema. Engines evaluate them (`engines`).
"""
