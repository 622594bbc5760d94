"""
Engines that hold a model to a grammar: llguidance, outlines and xgrammar over the embedded model.

Each library runs in a process of its own (`child`, which `grammars` asks), so that what hangs, crashes or eats the
memory is that process, and costs one case.
"""
