"""Exchange results with other tools, in evaluation files or in the shared format every_eval_ever."""
