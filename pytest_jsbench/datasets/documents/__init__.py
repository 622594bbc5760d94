"""Files that hold schemas, read: JSON and YAML text, and references from one file to another."""
