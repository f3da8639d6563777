# A-11. The server of eu.fr dies. Its two clusters still see each other, over their own line, and keep only eu.fr;
# all others go on without it. Its return merges both.
# spec: C-062 C-063 C-131
world   tree T-REF
join    g  eu.fr.c1.h1 eu.fr.c2.h1 eu.de.c1.h1 us.ca.c2.h2
settle
----
  0.324  us.ca.c2.h2   g is {eu.de.c1.h1 eu.fr.c1.h1 eu.fr.c2.h1 us.ca.c2.h2}
  0.404  eu.de.c1.h1 eu.fr.c1.h1 eu.fr.c2.h1   g is {eu.de.c1.h1 eu.fr.c1.h1 eu.fr.c2.h1 us.ca.c2.h2}

crash   eu.fr
settle
join    g  eu.fr.c2.h2
settle
----
  3.467  us.ca.c2.h2   without fr   g is {eu.de.c1.h1 us.ca.c2.h2}   because eu lost fr: silent
  4.097  eu.fr.c1.h1   only fr   g is {eu.fr.c1.h1 eu.fr.c2.h1}   because eu.fr.c1 lost fr: silent
  4.097  eu.fr.c2.h1   only fr   g is {eu.fr.c1.h1 eu.fr.c2.h1}   because eu.fr.c2 lost fr: silent
  4.137  eu.de.c1.h1   without fr   g is {eu.de.c1.h1 us.ca.c2.h2}   because de lost fr: silent
 12.139  eu.fr.c2.h1   eu.fr.c2.h2 joined   g is {eu.fr.c1.h1 eu.fr.c2.h1 eu.fr.c2.h2}
 12.179  eu.fr.c1.h1   eu.fr.c2.h2 joined   g is {eu.fr.c1.h1 eu.fr.c2.h1 eu.fr.c2.h2}
 12.221  eu.fr.c2.h2   g is {eu.fr.c1.h1 eu.fr.c2.h1 eu.fr.c2.h2}

restart eu.fr
settle
----
  0.243  eu.de.c1.h1   merged: eu.fr.c1.h1 back   g is {eu.de.c1.h1 eu.fr.c1.h1 us.ca.c2.h2}
  0.243  eu.de.c1.h1   merged: eu.fr.c2.h1 eu.fr.c2.h2 back   g is {eu.de.c1.h1 eu.fr.c1.h1 eu.fr.c2.h1 eu.fr.c2.h2 us.ca.c2.h2}
  0.323  us.ca.c2.h2   merged: eu.fr.c1.h1 back   g is {eu.de.c1.h1 eu.fr.c1.h1 us.ca.c2.h2}
  0.323  us.ca.c2.h2   merged: eu.fr.c2.h1 eu.fr.c2.h2 back   g is {eu.de.c1.h1 eu.fr.c1.h1 eu.fr.c2.h1 eu.fr.c2.h2 us.ca.c2.h2}
  0.523  eu.fr.c1.h1 eu.fr.c2.h1 eu.fr.c2.h2   merged: eu.de.c1.h1 us.ca.c2.h2 back   g is {eu.de.c1.h1 eu.fr.c1.h1 eu.fr.c2.h1 eu.fr.c2.h2 us.ca.c2.h2}
