"""Where cases come from: one module per kind of source."""
