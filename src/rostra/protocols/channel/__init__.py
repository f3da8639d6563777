"""The data channel: one best-effort datagram to one place, to a LAN, or to other clusters."""
