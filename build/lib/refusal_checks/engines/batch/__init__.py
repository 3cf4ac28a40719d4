"""Very large runs on an engine that exists already: requests out and results in, as batch files."""
