"""The options: declared in one table, read once into `Settings`."""
