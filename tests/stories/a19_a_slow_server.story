# A-19. A server stands still for less than anybody's patience: the answer is late and complete, and nobody is told
# anything. A caller in a hurry gets a refusal in time and nothing partial. When the server stands still for twice
# as long as patience lasts, the others go on without its domain, and merge when it is back.
# spec: C-035 C-180 C-185
world   tree T-REF
join    g  eu.fr.c1.h1 us.ca.c2.h2
settle
----
  0.404  eu.fr.c1.h1 us.ca.c2.h2   g is {eu.fr.c1.h1 us.ca.c2.h2}

pause   us.ca
resolve g  eu.fr.c1.h1
resolve g  eu.fr.c1.h2 deadline=2s
run     3200ms
continue us.ca
settle
----
  2.000  eu.fr.c1.h2   refused: DEADLINE
  3.443  eu.fr.c1.h1   answer: g is {eu.fr.c1.h1 us.ca.c2.h2}

pause   us.ca
run     8s
continue us.ca
settle
----
  4.267  eu.fr.c1.h1   without ca   g is {eu.fr.c1.h1}   because us lost ca: silent
  4.397  us.ca.c2.h2   only ca   g is {us.ca.c2.h2}   because us.ca.c2 lost ca: silent
  8.243  eu.fr.c1.h1   merged: us.ca.c2.h2 back   g is {eu.fr.c1.h1 us.ca.c2.h2}
  8.443  us.ca.c2.h2   merged: eu.fr.c1.h1 back   g is {eu.fr.c1.h1 us.ca.c2.h2}
