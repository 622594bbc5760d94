"""Compare how clients and frameworks cope with the faults of `jsbench.endpoint`, whole and streamed."""
