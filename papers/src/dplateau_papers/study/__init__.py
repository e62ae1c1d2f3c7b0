"""The algorithms of all papers side by side."""
