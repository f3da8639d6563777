# A program that does not read is not kept waiting for, and not lied to: it learns that it missed something,
# and gets a new snapshot.
# spec: C-045
world   haifa: a b   paris: c
join    chess  a b
settle
----
  0.082  a b       chess is {a b}

deaf    a
join    chess  c
leave   chess  b
settle
----
  0.084  c         chess is {a c}

hears   a
settle
----
  0.000  a         missed 2 notices   of chess
  0.084  a         chess is {a c}
