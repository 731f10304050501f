"""The engine of this process, over streams: operators take batches, and return what is final."""
