# Connections break and come back while messages are under way: nobody is given up, and nothing is lost.
# spec: C-026 C-032
world   haifa: a b   paris: c
show    links
join    chess  a b c
run     20ms
reset   link haifa | paris
run     100ms
reset   link a | haifa
settle
----
  0.243  a b       chess is {a b c}
  0.264  c         chess is {a b c}
