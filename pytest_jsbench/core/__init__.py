"""The ground that every other package stands on: it knows no schema, no model and no test."""
