"""Numbered streams over a channel that loses, duplicates and reorders."""
