"""How to join without stopping the stream? Xpand: group, LAN and member machines."""
