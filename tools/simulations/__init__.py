"""Simulations behind the documentation's tables: how often intervals and gates are wrong."""
