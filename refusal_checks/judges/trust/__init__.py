"""Whether a judge can be trusted: canary and human labels."""
