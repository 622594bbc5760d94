"""Analyze JSON Schemas: dialects, subschemas, references, keywords and features; get schemas of Python types."""
