"""The providers: what their engines share, the four wire formats, the clouds, and batches."""
