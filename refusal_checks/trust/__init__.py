"""Whether a judge can be trusted: its check on known exchanges, and people's labels."""
