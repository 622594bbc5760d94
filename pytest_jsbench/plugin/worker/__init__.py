"""Where tests run: the items, the calls ahead of them, and the project's tests."""
