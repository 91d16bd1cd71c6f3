"""One check a file, named after the illness: a pure function from evidence to findings."""
