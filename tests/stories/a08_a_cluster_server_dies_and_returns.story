# A-08. The server of a cluster dies. Its hosts are alone, each told to keep only itself; the others go on without
# the cluster. It returns with an empty memory, and everything is as before.
# spec: C-023 C-115 C-116 C-138
world   tree T-REF
join    g  eu.fr.c1.h1 eu.fr.c1.h2 us.ca.c2.h2
settle
----
  0.404  eu.fr.c1.h1 eu.fr.c1.h2 us.ca.c2.h2   g is {eu.fr.c1.h1 eu.fr.c1.h2 us.ca.c2.h2}

crash   eu.fr.c1
settle
resolve g  eu.fr.c1.h1
settle
----
  3.346  eu.fr.c1.h1   only eu.fr.c1.h1   g is {eu.fr.c1.h1}   because eu.fr.c1.h1 lost eu.fr.c1: silent
  3.346  eu.fr.c1.h2   only eu.fr.c1.h2   g is {eu.fr.c1.h2}   because eu.fr.c1.h2 lost eu.fr.c1: silent
  3.507  us.ca.c2.h2   without eu.fr.c1   g is {us.ca.c2.h2}   because fr lost eu.fr.c1: silent
 12.096  eu.fr.c1.h1   answer: g is {eu.fr.c1.h1}   isolated

restart eu.fr.c1
settle
resolve g  us.ny.c1.h1
settle
----
  0.004  eu.fr.c1.h1   merged: eu.fr.c1.h2 back   g is {eu.fr.c1.h1 eu.fr.c1.h2}
  0.006  eu.fr.c1.h2   merged: eu.fr.c1.h1 back   g is {eu.fr.c1.h1 eu.fr.c1.h2}
  0.283  us.ca.c2.h2   merged: eu.fr.c1.h1 eu.fr.c1.h2 back   g is {eu.fr.c1.h1 eu.fr.c1.h2 us.ca.c2.h2}
  0.483  eu.fr.c1.h1 eu.fr.c1.h2   merged: us.ca.c2.h2 back   g is {eu.fr.c1.h1 eu.fr.c1.h2 us.ca.c2.h2}
  8.887  us.ny.c1.h1   answer: g is {eu.fr.c1.h1 eu.fr.c1.h2 us.ca.c2.h2}
