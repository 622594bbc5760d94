"""Where reports land: the state of the run, its files, and what the terminal shows."""
