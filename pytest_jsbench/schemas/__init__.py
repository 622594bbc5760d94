"""JSON Schema as such: dialects, subschemas, where `$ref` leads, keywords, features, schemas of Python types."""
