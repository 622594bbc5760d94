"""
Engines: generate an answer for a prompt and a schema.

Reading order: `base` (the interface), `registry` (engines by name), `options` (settings and requirements), `secrets`
(removes secrets from what engines return), `http` (shared by all HTTP calls), `providers` (wire formats, engines,
clouds and batches), then a module or package per other engine: `local`, `recorded`, `scripted`.
"""
