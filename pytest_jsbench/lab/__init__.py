"""Optional features, loaded only through entry points: probe, decoding libraries, interchange, view."""
