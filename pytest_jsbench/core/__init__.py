"""Values, errors, text and files that all other packages share; no module here depends on schemas, models or tests."""
