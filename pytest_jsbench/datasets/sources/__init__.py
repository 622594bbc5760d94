"""Sources of cases, one module per kind."""
