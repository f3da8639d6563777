# Nobody reads at c, which chose `spill`: its sender does not wait for it, and what it has not read is on the
# disk of its cluster's server. Everything is there when c reads again (XX-21).
# spec: X-091
world   haifa: a b   paris: c   fifo
join    chess  a  delivery=fifo
join    chess  b  delivery=fifo  role=receive
join    chess  c  delivery=fifo  role=receive  slow=spill
settle
deaf    c
stream  chess  a  every=1ms  count=6000
run     8s
----
  0.170  a b       chess is {a b c}   and may be heard
  0.170  c         chess is {b c}   and may be heard
  0.248  c         a joined   chess is {a b c}
 15.287  b         heard a 1-6000

hears   c
run     8s
----
  0.006  c         heard a 1-6000
