# A server that stands still for two seconds is suspected, and the suspicion is shown; nobody loses a
# membership for it. One that stands still for long is given up, and merges when it goes on.
# spec: A-19 C-035
world   haifa: a b   paris: c
join    chess  a b c
settle
----
  0.084  a b c     chess is {a b c}

show    links
pause   paris
run     2500ms
continue paris
settle
----
  1.250  [world]   paris is suspected
  1.500  [c]       paris is suspected
  1.750  [haifa]   paris is suspected
  2.501  [c]       paris is trusted again
  2.540  [haifa] [world]   paris is trusted again

show
pause   paris
run     10s
continue paris
settle
----
  4.250  c         only c   chess is {c}   because c lost paris: silent
  4.251  a b       without paris   chess is {a b}   because haifa lost paris: silent
 10.123  a b       merged: c back   chess is {a b c}
 10.163  c         merged: a b back   chess is {a b c}
