"""Prompts, records, judgements, settings and errors; this layer imports no other."""
