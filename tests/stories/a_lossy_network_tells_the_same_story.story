# A fifth of all packets is lost, some arrive twice or out of order; the links make up for it, later but in full.
# spec: C-026
world   haifa: a b   paris: c d   wan=20ms..60ms loss=20% duplicate=5% reorder=10% seed=3
join    chess  a b c d
settle
----
  2.500  c         chess is {a c d}
  2.502  d         chess is {a c d}
  2.525  d         b joined   chess is {a b c d}
  2.543  b         chess is {a b c d}
  3.500  a         chess is {a b c d}
  3.500  c         b joined   chess is {a b c d}

leave   chess  b
kill    d
settle
----
  0.002  a         b left   chess is {a c d}
  0.002  c         d crashed   chess is {a b c}
  0.029  c         b left   chess is {a c}
  0.040  a         d crashed   chess is {a c}
