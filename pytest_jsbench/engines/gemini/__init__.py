"""Gemini's own API, `generateContent`."""
