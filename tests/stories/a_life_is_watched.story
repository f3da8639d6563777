# A program watches another's life without sharing a group with it.
# spec: C-157
world   haifa: a   paris: c d
open    a c d
life    a of c d
settle
----
  0.084  a         c lives
  0.084  a         d lives

kill    c
settle
----
  0.042  a         c is dead   because crashed

crash   d
settle
run     30s
----
 13.582  a         d is dead   because unreachable
