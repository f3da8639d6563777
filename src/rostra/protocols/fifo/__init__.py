"""FIFO multicast (Xpand): each sender's messages in order and without gaps; a join never stalls a stream."""
