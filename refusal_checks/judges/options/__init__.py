"""Which option an answer settles on, read by rules: marked, split into claims, and settled."""
