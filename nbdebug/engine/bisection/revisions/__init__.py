"""Two revisions of a Git repository, one of which learns: exchange what differs, or find the first bad commit."""
