"""Prompts, records, judgements, settings and errors; imports no other part of the package."""
