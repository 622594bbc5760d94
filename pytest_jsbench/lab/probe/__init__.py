"""Probe a server: find out by which response formats it enforces schemas."""
