"""How each kind of exhibit is laid out on a sheet of marks, and how a sheet becomes SVG or PNG."""
