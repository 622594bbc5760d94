"""Reduce a failing case to the smallest schema that still fails in the same way, with neutral names"""
