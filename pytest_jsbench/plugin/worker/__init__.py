"""Where tests run: the items, the calls ahead of them, and a project's own tests."""
