"""Write the records of runs to disk, and read, resume, merge and judge them again."""
