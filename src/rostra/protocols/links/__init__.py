"""Links between neighbours: the same words arrive once and in order, or the epoch ends for both sides."""
