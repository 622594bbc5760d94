"""Write a run's report as one HTML page."""
