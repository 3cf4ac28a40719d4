"""Which option an answer to a multiple-choice question settles on, read by rules."""
