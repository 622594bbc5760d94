"""Find out in which ways of asking a server holds its answers to their schemas."""
