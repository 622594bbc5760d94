"""Probe a server: find out in which response formats the server enforces schemas."""
