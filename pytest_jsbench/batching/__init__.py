"""
A run's attempts as a provider's batches: handed in together, waited for, and answered to each test out of a file.

`gathering` finds out what would be asked; `handing` hands it in, waits and reads the answers; `file` keeps the
batches' ids on disk; `answers` is the engine that the tests then ask.
"""
