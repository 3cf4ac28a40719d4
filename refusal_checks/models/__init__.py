"""The models named by ``--candidate`` and ``--judge``, and the client that asks them."""
