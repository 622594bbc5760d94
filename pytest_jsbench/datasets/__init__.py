"""Read cases from datasets: files, rows, tables, OpenAPI documents, tools, Python objects and the hub."""
