"""A whole small world on this machine: `rostra up`.

plan           which processes there are, who runs in each, and which cables lie between them
home           the directory of one running world: sockets, logs, state; nothing is left of it
cables         the cables themselves: relays that pass, lose or delay what is said
child          what every process of the world begins with: it does not outlive its supervisor
children       those processes, seen from the supervisor
programs       people who come and go, so that there is something to see
world          all of it together, and everything that can be done to it: the dashboard's `Lab`
dashboard      the pages, over all nodes of the world
"""
