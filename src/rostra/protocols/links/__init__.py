"""Reliable links between neighbours: messages arrive once and in order, or the epoch ends for both sides."""
