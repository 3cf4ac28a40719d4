"""One module per suite; a module that defines ``BENCHMARKS`` is found by itself."""
