"""The dashboard: a JSON API over HTTP, and pages that read only that API.

places         where the world is looked at from: nodes, through the door that their programs use
picture        servers and links, up or not, put together from what all places say
timeline       what happened, each thing once, however many places saw it
observatory    keeps all of that current, and tells subscribers
lab            what the buttons of a world on one machine can do
api            the HTTP interface; `docs/api-http.md` is its contract
pages/         what the browser runs
"""
