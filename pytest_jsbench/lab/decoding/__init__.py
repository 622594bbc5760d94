"""
Engines that constrain the embedded model with a grammar: llguidance, outlines and xgrammar.

Each library runs in a separate process, so that a hang, a crash or exhausted memory affects only one case.
"""
