"""What all kinds of groups share: kinds, members, and what a program hears of a group."""
