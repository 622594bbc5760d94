"""JSON Schema itself: dialects, subschemas, references, keywords, features, schemas of Python types."""
