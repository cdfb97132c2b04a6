"""passnet's Python side: the worker process, the only place where torch and Triton are imported."""
