# A host loses its cluster's server: its programs go on with each other, and everything they ask works, on
# what they can reach. The others go on without that host. When the cable is back, each learns what the
# other did meanwhile.
# spec: C-044 C-054 C-106 C-115 C-116
world   haifa: a b   paris: c
join    chess  a a/second b c
settle
----
  0.084  a a/second b c   chess is {a a/second b c}

cut     a
settle
----
  4.000  a a/second   only a   chess is {a a/second}   because a lost haifa: silent
  4.251  b         without a   chess is {b c}   because haifa lost a: silent
  4.291  c         without a   chess is {b c}   because haifa lost a: silent

join    chess  a/third
leave   chess  a/second
leave   chess  c
resolve chess  a b
settle
----
  0.000  a a/second   a/third joined   chess is {a a/second a/third}
  0.000  a/third   chess is {a a/second a/third}   isolated
  0.000  a a/third   a/second left   chess is {a a/third}
  0.000  a         answer: chess is {a a/third}   isolated
  0.042  b         c left   chess is {b}
  0.082  b         answer: chess is {b}

heal
settle
----
  0.213  b         merged: a a/third back   chess is {a a/third b}
  0.215  a a/third   merged: b back   chess is {a a/third b}
