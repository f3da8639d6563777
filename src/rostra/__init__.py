"""Rostra: named groups of programs over many sites; who is in them, why they left, and what happened."""
