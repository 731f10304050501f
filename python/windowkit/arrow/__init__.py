"""Arrow data in and out: checked, read as types that the core knows, with more columns, and as a result.

Every engine of this process takes its rows here, and gives its results back in the form of what it was given.
"""
