"""The door of a script or a notebook: a dataset, an engine, an evaluation and its run; it knows no pytest."""
