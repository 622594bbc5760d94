"""Whether a server holds its answers to their schemas, and in which ways of asking."""
