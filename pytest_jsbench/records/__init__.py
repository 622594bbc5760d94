"""Records on disk: written when they exist, read back, resumed, merged and judged again."""
