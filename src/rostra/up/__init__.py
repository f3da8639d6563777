"""A whole small world on this machine: `rostra up`.

plan           which processes there are, which nodes run in each, and which cables lie between them
home           the directory of one running world: sockets, logs, state; removed at the end
cables         TCP relays between the processes, which can cut, lose and delay
child          how every process of the world starts: it does not outlive its supervisor
children       those processes, seen from the supervisor
programs       sample programs that join, leave and send, so that there is something to see
world          all of it, with the operations of the dashboard's `Lab`
dashboard      the pages, over all nodes of the world
"""
