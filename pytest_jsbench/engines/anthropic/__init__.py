"""Anthropic's Messages, and every server that speaks them."""
