# Between the sites, notices are a second slower than data (XX-7). c hears of b late, but before its first
# message, and misses none; b may speak when it has its list, whatever the servers still have to say.
# spec: X-001 X-121
world   haifa: a b   paris: c   fifo
join    chess  a c  delivery=fifo
settle
----
  0.170  a         chess is {a}   and may be heard
  0.170  c         chess is {c}   and may be heard
  0.248  a         c joined   chess is {a c}
  0.248  c         a joined   chess is {a c}

delay   control 1s  haifa | paris
join    chess  b  delivery=fifo
run     100ms
stream  chess  b  every=100ms  count=20
run     5s
----
  0.002  a         b joined   chess is {a b c}
  1.002  c         b joined   chess is {a b c}
  2.006  b         chess is {a b c}   and may be heard
  2.046  a c       heard b 1-20
