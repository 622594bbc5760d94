"""
Engines: each turns a prompt and a schema into text.

Reading order: `base` (what an engine is), `registry` (by which name it is found), `options` (what a user gives it, and
what it needs), `secrets` (what no engine may say), `http` (what every call over HTTP shares), `providers` (their wire
formats, engines, clouds and batches), then a package or a module for each other engine: `local`, `recorded`,
`scripted`.
"""
