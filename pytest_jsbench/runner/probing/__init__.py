"""The probe: questions that no model answers as their schemas say, unless it is held to them."""
