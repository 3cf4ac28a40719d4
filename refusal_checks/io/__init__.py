"""Files: formats, stores and extensions; whatever is read from a disk or written to it."""
