"""Providers: shared engine code, the four wire formats, clouds, and batches."""
