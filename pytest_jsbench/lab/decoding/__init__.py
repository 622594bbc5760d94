"""
Engines that constrain the embedded model by a grammar: llguidance, outlines and xgrammar.

`grammars` runs each library in a separate process, so that a hang, a crash or exhausted memory costs one case.
"""
