"""Types, errors and helpers that all other packages use; the modules here import no other package of the project."""
