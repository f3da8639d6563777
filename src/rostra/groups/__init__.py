"""Shared by all kinds of groups: kinds, members, and the items that a program gets from a group."""
