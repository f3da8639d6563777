# Paris is cut off for a few seconds at ten messages a second (XX-16). Both sides are told once; inside haifa
# nothing stops; when the cut heals everybody goes on where it was: `resumed`, no gap.
# spec: X-056 X-057 X-060 X-061 X-064 X-066
world   haifa: a b   paris: c   fifo
join    chess  a b c  delivery=fifo
settle
stream  chess  a c  every=100ms
run     1s
----
  0.170  a         chess is {a}   and may be heard
  0.170  b         chess is {a b}   and may be heard
  0.170  c         chess is {c}   and may be heard
  0.172  a         b joined   chess is {a b}
  0.248  a b       c joined   chess is {a b c}
  0.248  c         a b joined   chess is {a b c}
 10.229  b c       heard a 1-10
 10.229  a b       heard c 1-10

cut     haifa | paris
run     10s
----
  3.464  a b       without paris   because haifa lost paris: silent
  3.464  a b       c disconnected after 10   chess is {a b}
  4.214  c         without haifa   because paris lost haifa: silent
  4.214  c         a disconnected after 10   chess is {b c}
  4.214  c         b disconnected after 0   chess is {c}
  9.901  b         heard a 11-110

heal    haifa | paris
run     10s
hush    chess  a c
run     3s
----
  0.456  a b       c resumed   chess is {a b c}
  0.496  c         a resumed   chess is {a c}
  0.496  c         b resumed   chess is {a b c}
 10.042  b         heard a 111-211
 10.042  a b       heard c 11-211
 10.042  c         heard a 11-211
