"""The models that ``--candidate`` and ``--judge`` name, and the client that asks them."""
