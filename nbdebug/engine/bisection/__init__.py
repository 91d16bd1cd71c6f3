"""Two set-ups, one of which learns: what differs between them, and which of it makes the other one fail."""
