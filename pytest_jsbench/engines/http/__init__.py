"""HTTP calls: client, deadlines, streamed answers, and parsing of errors."""
