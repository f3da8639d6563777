"""An agent's programs: their sessions, what they hold, and what each is told."""
