"""Simulations behind the tables of the documentation: how often intervals and gates are wrong."""
