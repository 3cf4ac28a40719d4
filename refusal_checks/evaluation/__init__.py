"""From a spec to a result: check, prepare, evaluate, decide, keep."""
