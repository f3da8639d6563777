"""One order for all: atomic multicast after AMp (paper 002). See `docs/protocols/amp.md`."""
