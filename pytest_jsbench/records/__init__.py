"""Records on disk: write, read, resume, merge and judge them again."""
