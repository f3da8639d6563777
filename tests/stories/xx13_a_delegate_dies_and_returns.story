# The server of haifa, and with it the delegate of its LAN, dies, and nobody stands in (XX-13). Until that is
# noticed b still hears a, since data needs no server; then each host goes on alone. A restart within the time
# for which messages are kept costs none of them.
# spec: X-102 X-063 X-101
world   haifa: a b   paris: c   fifo
join    chess  a a/two b c  delivery=fifo
settle
stream  chess  a c  every=100ms
run     1s
crash   haifa
run     8s
----
  0.170  a a/two   chess is {a a/two}   and may be heard
  0.170  b         chess is {a a/two b}   and may be heard
  0.170  c         chess is {c}   and may be heard
  0.172  a a/two   b joined   chess is {a a/two b}
  0.248  a a/two b   c joined   chess is {a a/two b c}
  0.248  c         a a/two b joined   chess is {a a/two b c}
 14.500  a a/two   only a   because a lost haifa: silent
 14.500  a a/two   b disconnected after 0   chess is {a a/two c}
 14.500  a a/two   heard c 1-10
 14.500  a a/two   c disconnected after 10   chess is {a a/two}
 14.500  b         only b   because b lost haifa: silent
 14.500  b         heard a 1-53
 14.500  b         a disconnected after 53   chess is {a/two b c}
 14.500  b         a/two disconnected after 0   chess is {b c}
 14.500  b         heard c 1-10
 14.500  b         c disconnected after 10   chess is {b}
 14.501  c         without haifa   because paris lost haifa: silent
 14.501  c         heard a 1-10
 14.501  c         a disconnected after 10   chess is {a/two b c}
 14.501  c         a/two disconnected after 0   chess is {b c}
 14.501  c         b disconnected after 0   chess is {c}
 18.287  a/two     heard a 1-91

restart haifa
run     15s
hush    chess  a c
run     3s
----
  0.297  b         a resumed   chess is {a b}
  0.297  b         a/two resumed   chess is {a a/two b}
  0.299  a a/two   b resumed   chess is {a a/two b}
  0.337  c         a resumed   chess is {a c}
  0.337  c         a/two resumed   chess is {a a/two c}
  0.337  c         b resumed   chess is {a a/two b c}
  0.377  a a/two b   c resumed   chess is {a a/two b c}
 15.042  a/two     heard a 92-241
 15.042  b         heard a 54-241
 15.042  c         heard a 11-241
 15.042  a a/two b   heard c 11-241
