# A-20. Only what eu.fr.c1 says to eu.fr is delayed, for longer than patience lasts: only the parent can suspect.
# Both ends must end the epoch all the same, or c1 would never announce its members again.
# spec: C-030
world   tree T-REF
show    links
join    g  eu.fr.c1.h1 us.ca.c2.h2
settle
----
  0.404  eu.fr.c1.h1 us.ca.c2.h2   g is {eu.fr.c1.h1 us.ca.c2.h2}

delay   6s link eu.fr.c1 > eu.fr
run     5s
delay   40ms link eu.fr.c1 > eu.fr
settle
----
  0.846  [fr]      eu.fr.c1 is suspected
  3.346  [fr]      eu.fr.c1 is down   because fr lost eu.fr.c1: silent
  3.386  [eu.fr.c1]   fr is down   because eu.fr.c1 lost fr: ended by peer
  3.387  eu.fr.c1.h1   only fr   g is {eu.fr.c1.h1}   because eu.fr.c1 lost fr: ended by peer
  3.507  us.ca.c2.h2   without eu.fr.c1   g is {us.ca.c2.h2}   because fr lost eu.fr.c1: silent
  9.386  [fr]      eu.fr.c1 is up
  9.426  [eu.fr.c1]   fr is up
 10.297  us.ca.c2.h2   merged: eu.fr.c1.h1 back   g is {eu.fr.c1.h1 us.ca.c2.h2}
 10.499  eu.fr.c1.h1   merged: us.ca.c2.h2 back   g is {eu.fr.c1.h1 us.ca.c2.h2}
