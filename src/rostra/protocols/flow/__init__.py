"""Numbered streams over a channel that loses, doubles and reorders."""
