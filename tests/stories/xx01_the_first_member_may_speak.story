# The first member of a group finds no delegate of its LAN in it, asks for one, and waits for nobody else
# (XX-1). It may speak at once; but nobody who comes later is told what was said before.
# spec: X-001 X-011 X-037 X-029
world   haifa: a b   paris: c   fifo
join    chess  a  delivery=fifo
send    chess  a  "e4"
settle
----
  0.088  a         chess is {a}   and may be heard

# The second of the same LAN starts in the middle of the stream, and nothing of this crosses to paris (XX-2).
stream  chess  a  every=100ms
run     1s
join    chess  b  delivery=fifo
run     1s
hush    chess  a
settle
----
  1.002  a         b joined   chess is {a b}
  1.006  b         chess is {a b}   and may be heard
  2.001  b         heard a 13-22

# The first of another LAN: its delegate asks the other one for numbers, and both sides hear each other (XX-3).
stream  chess  a b  every=100ms  count=30
run     1s
join    chess  c  delivery=fifo
run     500ms
send    chess  c  "hello from paris"
settle
----
  1.170  c         chess is {c}   and may be heard
  1.210  a b       c joined   chess is {a b c}
  1.248  c         a joined   chess is {a c}
  1.248  c         b joined   chess is {a b c}
  1.542  a b       c says 'hello from paris'   number 1
  2.942  b         heard a 23-52
  2.942  a         heard b 1-30
  2.942  c         heard a 34-52
  2.942  c         heard b 12-30

# A leaver is heard to the end, and `after` says which number that was.
send    chess  c  "goodbye"
leave   chess  c
settle
----
  0.042  a b       c says 'goodbye'   number 2
  0.384  c         parted from chess
  0.426  a b       c left after 2   chess is {a b}
