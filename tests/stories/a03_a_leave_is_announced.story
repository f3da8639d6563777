# A-03. A leave is told to those who stay and are online; a resolve no longer finds the leaver; and when the last
# one has left, every row is gone.
# spec: C-011 C-051 C-061
world   tree T-REF
join    g  eu.fr.c1.h1 us.ca.c2.h2
join    g  eu.de.c1.h1 offline
settle
leave   g  us.ca.c2.h2 meta=goodnight
settle
resolve g  us.ny.c1.h1
settle
----
  0.404  eu.fr.c1.h1 us.ca.c2.h2   g is {eu.de.c1.h1 eu.fr.c1.h1 us.ca.c2.h2}
  8.606  eu.fr.c1.h1   us.ca.c2.h2 left   g is {eu.de.c1.h1 eu.fr.c1.h1}
 17.058  us.ny.c1.h1   answer: g is {eu.de.c1.h1 eu.fr.c1.h1}

show    notes
leave   g  eu.fr.c1.h1 eu.de.c1.h1
settle
resolve g  us.ny.c1.h1
settle
----
  0.001  [eu.de.c1] [eu.fr.c1]   row dropped   g@world
  0.041  [de] [fr]   row dropped   g@world
  0.041  [eu.de.c2] [eu.fr.c2]   ignored InterestChanged   no row
  0.081  [de] [fr]   ignored InterestChanged   no row
  0.081  [eu]      row dropped   g@world
  0.121  [us]      ignored InterestChanged   no row
  0.121  [us]      ignored InterestChanged   no row
  8.251  [us.ny.c1]   collection opened   resolve g@world
  8.251  [us.ny.c1]   collection opened   resolve g@world
  8.291  [ny]      collection opened   resolve g@world
  8.331  [us]      collection opened   resolve g@world
  8.411  [us]      collection closed   resolve g@world
  8.451  [ny]      collection closed   resolve g@world
  8.491  [us.ny.c1]   collection closed   resolve g@world
  8.491  [us.ny.c1]   collection closed   resolve g@world
  8.492  us.ny.c1.h1   answer: g is {}
