"""One module per way of judging."""
