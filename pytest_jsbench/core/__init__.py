"""Values, errors, text and files that all other packages share; the modules here import none of these packages."""
