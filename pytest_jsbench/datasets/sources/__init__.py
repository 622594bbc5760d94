"""Read cases from sources of several kinds, with one module for each kind."""
