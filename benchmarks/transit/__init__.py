"""Compare the schemas that clients send with the schemas of an application's types."""
