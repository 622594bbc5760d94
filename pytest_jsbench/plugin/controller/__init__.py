"""Where the reports of all processes arrive: the state of the run, its files, and what the terminal shows."""
