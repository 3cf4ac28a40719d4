"""Everything said about a run in words, so that it can be reworded in one place.

``gate_sentences`` speaks of one gate, ``failures`` of the prompts that it failed on, ``remarks`` of
the run beside its gates, and ``release`` answers whether it may ship. Texts are safe lines without
control characters; each medium escapes them for itself.
"""
