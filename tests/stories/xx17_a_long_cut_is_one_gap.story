# Longer than anybody keeps messages for the lost side (30 s): one gap for each stream that crossed the cut, and
# it says exactly which numbers were never owed (XX-17). b said nothing meanwhile: nothing of it was missed.
# spec: X-064 X-065
world   haifa: a b   paris: c   fifo
join    chess  a b c  delivery=fifo
settle
stream  chess  a c  every=500ms
run     2s
cut     haifa | paris
run     60s
----
  0.170  a         chess is {a}   and may be heard
  0.170  b         chess is {a b}   and may be heard
  0.170  c         chess is {c}   and may be heard
  0.172  a         b joined   chess is {a b}
  0.248  a b       c joined   chess is {a b c}
  0.248  c         a b joined   chess is {a b c}
 14.751  a b       without paris   because haifa lost paris: silent
 14.751  a b       heard c 1-4
 14.751  a b       c disconnected after 4   chess is {a b}
 15.501  c         without haifa   because paris lost haifa: silent
 15.501  c         heard a 1-4
 15.501  c         a disconnected after 4   chess is {b c}
 15.501  c         b disconnected after 0   chess is {c}
 70.788  b         heard a 1-124

heal    haifa | paris
run     10s
hush    chess  a c
run     3s
----
  0.456  a b       missed c 5-125
  0.456  a b       c joined   chess is {a b c}
  0.496  c         missed a 5-125
  0.496  c         a joined   chess is {a c}
  0.496  c         b resumed   chess is {a b c}
 10.042  b         heard a 125-145
 10.042  c         heard a 126-145
 10.042  a b       heard c 126-145
