"""The kinds of source that cases come from, a module each."""
