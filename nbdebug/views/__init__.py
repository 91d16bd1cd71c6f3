"""The viewers: what goes into a network, what happens in it, and how it learns, as live views, pages and text."""
