"""Exchange results with other tools: evaluation files of any tool, and the shared format every_eval_ever."""
