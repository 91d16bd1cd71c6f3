"""How each kind of exhibit is laid out as a matplotlib figure, and how a figure becomes SVG or PNG."""
