"""One module per suite; those that define ``BENCHMARKS`` are discovered."""
