"""Optional features, which only entry points load: probe, decoding libraries, batches, interchange, view."""
