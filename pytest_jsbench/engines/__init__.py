"""
Engines: generate an answer for a prompt and a schema.

Reading order: `base` (the interface), `registry` (engines by name), `engine_options` (settings and requirements),
`engine_secrets` (removes secrets from what engines return), `http` (shared by all HTTP calls), `providers` (wire
formats, engines, clouds and batches), then the modules of the other engines: `local`, `recorded`, `scripted`.
"""
