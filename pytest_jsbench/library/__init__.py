"""What a script or a notebook uses: a dataset, an engine, an evaluation and its run; it knows no pytest."""
