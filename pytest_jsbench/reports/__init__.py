"""Reports of a run for people and tools: terminal, HTML, JUnit, run.json and other formats."""
