"""Every command-line option, declared and read."""
