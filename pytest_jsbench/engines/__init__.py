"""
Engines: each turns a prompt and a schema into text.

Reading order: `base` (what an engine is), `registry` (by which name it is found), `options` and `requirements` (what
a user gives it), `secrets` (what no engine may say), `http` (what every call over HTTP shares), `providers` (their wire
formats, engines, clouds and batches), then a package or a module for each other engine: `local`, `recorded`,
`scripted`. `coroutines` calls an engine that is written with `async`.
"""
