"""An agent's programs: their sessions, quotas, requests and notices."""
