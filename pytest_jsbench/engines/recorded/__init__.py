"""Engines that replay answers: recordings next to tests, and whole runs."""
