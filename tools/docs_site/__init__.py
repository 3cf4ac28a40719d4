"""The documentation site: the tables it generates from the code, and the hooks of its build."""
