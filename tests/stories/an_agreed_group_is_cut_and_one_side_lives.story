# An agreed group of three sites. One is cut off: the majority goes on in the next view, with a larger fence; the
# side that is cut off is blocked, and says why. When the cut heals both are one again, in a later view.
# spec: V-100
world   eu.fr: a b   eu.de: c d   eu.it: e   lan=1ms wan=20ms
run     4s
join    ledger@eu  a b c d e  membership=agreed survive=majority
run     4s
----
  4.284  c         c joined   ledger@eu is [c]   view 1   fence 1
  4.364  a         c a joined   ledger@eu is [c a]   view 2   fence 2
  4.384  c         a joined   ledger@eu is [c a]   view 2   fence 2
  4.444  e         c a e joined   ledger@eu is [c a e]   view 3   fence 3
  4.464  a c       e joined   ledger@eu is [c a e]   view 3   fence 3
  4.504  d         c a e d joined   ledger@eu is [c a e d]   view 4   fence 4
  4.504  c         d joined   ledger@eu is [c a e d]   view 4   fence 4
  4.524  a e       d joined   ledger@eu is [c a e d]   view 4   fence 4
  4.564  b         c a e d b joined   ledger@eu is [c a e d b]   view 5   fence 5
  4.564  a         b joined   ledger@eu is [c a e d b]   view 5   fence 5
  4.584  c d e     b joined   ledger@eu is [c a e d b]   view 5   fence 5

cut     fr
run     12s
----
  1.750  a b       ledger@eu is blocked   because in doubt: too few of the others have answered of late
  1.751  a b       ledger@eu is blocked   because in doubt: too few of the others have answered of late
  3.831  c d e     a b failed   ledger@eu is [c e d]   view 6   fence 6
  7.751  a b       ledger@eu is blocked   because 2 of 5 who lived last are here

kill    a
run     2s
----
  0.002  b         ledger@eu is blocked   because 1 of 4 who lived last are here

heal
run     12s
----
  1.641  b c d e   ledger@eu is blocked   because two parts have just met
  1.681  c d       merged   ledger@eu is [c e d b]   view 8   fence 7
  1.681  b         ledger@eu is blocked   because in doubt: too few of the others have answered of late
  1.681  b e       merged   ledger@eu is [c e d b]   view 8   fence 7

leave   ledger@eu  c
run     2s
----
  0.042  d         c left   ledger@eu is [e d b]   view 9   fence 8
  0.062  b e       c left   ledger@eu is [e d b]   view 9   fence 8
