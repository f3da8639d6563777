"""The dashboard: a JSON API over HTTP, and pages that read only that API.

places         the nodes that are asked, each through its program socket
picture        the state of servers and links, from the reports of all places
timeline       events, each once, however many places reported it
observatory    keeps all of that current, and publishes it to subscribers
lab            the faults that can be made in a world of `rostra up`
api            the HTTP interface; `docs/api-http.md` is its contract
pages/         the files for the browser
"""
