"""Values, errors, text and files that all other packages share. It knows no schema, no model and no test."""
