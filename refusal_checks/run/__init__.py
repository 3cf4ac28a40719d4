"""A run: what was read and opened, its stages in order, and the recorder that writes it down."""
