"""A small model on this machine, through llama.cpp."""
