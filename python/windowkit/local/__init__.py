"""The engine of this process, over tables: queries, rolling aggregates, joins, rows without duplicates."""
