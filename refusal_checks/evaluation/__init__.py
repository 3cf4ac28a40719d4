"""Evaluate a spec into a result: check, prepare, ask and judge, decide, store."""
