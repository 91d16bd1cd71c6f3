"""One experiment a file: each runs on a twin, or looks at the subject, and returns evidence."""
