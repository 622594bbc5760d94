"""OpenAI's Chat Completions and Responses, and every server that speaks them."""
