"""Interchange with other tools: their evaluation files, and the shared format every_eval_ever."""
