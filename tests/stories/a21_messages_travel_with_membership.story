# A-21. A message never overtakes the news that its sender joined, nor news that its sender had heard before it
# spoke to somebody in the same cluster. What cannot be delivered is said.
# spec: C-152 C-153 C-154 C-156
world   tree T-REF
join    g  eu.fr.c1.h2/q
settle
----
  0.242  eu.fr.c1.h2/q   g is {eu.fr.c1.h2/q}

join    g  eu.fr.c1.h1/p
send    eu.fr.c1.h1/p > eu.fr.c1.h2/q hello
settle
----
  0.002  eu.fr.c1.h2/q   eu.fr.c1.h1/p joined   g is {eu.fr.c1.h1/p eu.fr.c1.h2/q}
  0.002  eu.fr.c1.h2/q   eu.fr.c1.h1/p says 'hello'
  0.004  eu.fr.c1.h1/p   g is {eu.fr.c1.h1/p eu.fr.c1.h2/q}

join    g  us.ny.c1.h1/x
settle
send    eu.fr.c1.h1/p > eu.fr.c1.h2/q have-you-met-x
settle
----
  0.202  eu.fr.c1.h1/p eu.fr.c1.h2/q   us.ny.c1.h1/x joined   g is {eu.fr.c1.h1/p eu.fr.c1.h2/q us.ny.c1.h1/x}
  0.404  us.ny.c1.h1/x   g is {eu.fr.c1.h1/p eu.fr.c1.h2/q us.ny.c1.h1/x}
  8.406  eu.fr.c1.h2/q   eu.fr.c1.h1/p says 'have-you-met-x'

cut     eu | us
settle
send    eu.fr.c1.h1/p > us.ny.c1.h1/x are-you-there
settle
----
  3.927  us.ny.c1.h1/x   without eu   g is {us.ny.c1.h1/x}   because us lost eu: silent
  4.177  eu.fr.c1.h1/p eu.fr.c1.h2/q   without us   g is {eu.fr.c1.h1/p eu.fr.c1.h2/q}   because eu lost us: silent
 12.339  eu.fr.c1.h1/p   not delivered to us.ny.c1.h1/x   because eu cannot reach us
