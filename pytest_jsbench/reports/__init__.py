"""What people and tools read of a run: terminal, HTML, JUnit, run.json and other formats."""
