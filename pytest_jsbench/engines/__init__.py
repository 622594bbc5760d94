"""
Engines: each turns a prompt and a schema into text.

Reading order: `base` (what an engine is), `registry` (by which name it is found), `options` and `requirements` (what
a user gives it), `secrets` (what no engine may say), `http` (what every call over HTTP shares), then a package or a
module for each engine: `openai`, `anthropic`, `local`, `recorded`, `scripted`. `batch_api` is what hands
requests to a provider in a batch, `coroutines` what calls an engine that is written with `async`.
"""
