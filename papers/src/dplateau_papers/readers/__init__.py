"""Readers of standard data sets from their own files."""
