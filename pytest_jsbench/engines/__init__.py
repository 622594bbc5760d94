"""
Engines: what turns a prompt and a schema into text.

Reading order: `base` (what an engine is), `registry` (by which name it is found), `options` and
`requirements` (what a user gives it), `provider_errors`, `faults`, `deadlines` and `answers` (what every call
over HTTP shares), then one module per engine: `openai`, `anthropic`, `local` (with `local_server` and
`bounded`), `scripted`.
"""
