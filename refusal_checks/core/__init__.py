"""Prompts, records, verdicts, settings and the store; imports no other part of the package."""
