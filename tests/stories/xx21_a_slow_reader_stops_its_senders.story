# Nobody reads at c. Its sender goes on for a window of 4096 messages and then waits: nothing is lost, and
# everything is there when c reads again (XX-21, under `throttle`).
# spec: X-090 X-091
world   haifa: a b   paris: c   fifo
join    chess  a  delivery=fifo
join    chess  b c  delivery=fifo  role=receive
settle
deaf    c
stream  chess  a  every=1ms  count=6000
run     8s
----
  0.170  a b       chess is {a b c}   and may be heard
  0.170  c         chess is {b c}   and may be heard
  0.248  c         a joined   chess is {a b c}
 13.383  b         heard a 1-4096

hears   c
run     8s
----
  0.084  c         heard a 1-6000
  0.084  b         heard a 4097-6000
