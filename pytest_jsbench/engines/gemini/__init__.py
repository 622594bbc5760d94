"""Gemini's own API, `generateContent`, through Google's SDK."""
