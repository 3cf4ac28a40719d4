"""Whether a judge can be trusted: its check on known exchanges, and what people say of it."""
