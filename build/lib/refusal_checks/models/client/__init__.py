"""The client of an OpenAI-compatible server."""
