"""What is written of a run when it ends: one module per format."""
