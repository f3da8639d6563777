# Rostra's workshop. `make` alone lists what there is. Every target sets up what it needs, once, in .venv;
# a fresh Debian with Python 3.11 and make is enough to begin.

PYTHON  ?= python3
SECONDS ?= 60
SEEDS   ?= 1000
HOURS   ?= 1
KILLS   ?= 20
STORMS  ?= 20
WORLDS  ?= 100
ROUNDS  ?= 40
EVENTS  ?= 1000000 10000000 100000000
AT      ?= /tmp/month
RECEIVERS ?= 300 1000 3000 10000
ARGS    ?=

BIN   := .venv/bin
READY := .venv/ready-to-work
RUNS  := .venv/ready-to-run

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*## .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: $(RUNS)  ## a whole small world on this machine, with a dashboard, until Ctrl-C (ARGS="--shape 3x3x4")
	@$(BIN)/rostra up $(ARGS)

lab: $(RUNS)  ## three sites and a bad network between them, as root, until Ctrl-C (ARGS="--loss 0.05", ARGS=my.toml)
	@$(BIN)/rostra lab up $(ARGS)

test:  ## all that must hold: format, lint, types, every test; as root it installs what they need
	@tools/test $(ARGS)

fresh:  ## make up and make test on a bare Debian, made for it in a scratch directory, as root
	@tools/fresh

fmt: $(READY)  ## rewrite the sources in the house's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --quiet .

lint: $(READY)  ## is it formatted, and free of the usual slips?
	@$(BIN)/ruff format --check --quiet . >/dev/null || { echo "not formatted: run  make fmt" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .

types: $(READY)  ## strict types
	@$(BIN)/mypy

unit: $(READY)  ## cores, stories, properties, faults, wire: virtual time, no network
	@$(BIN)/pytest -q -n 2 -m "not live and not browser and not cluster and not long" --ignore tests/live $(ARGS)

live: $(READY)  ## real processes: kill, stop and, as root in network namespaces, cut and heal
	@$(BIN)/pytest -q -n 2 -m "live and not browser and not long" tests/live tests/cli tests/attacks $(ARGS)

browser: $(READY)  ## the dashboard in a real Chromium
	@$(BIN)/pytest -q -n 2 -m browser tests/web $(ARGS)

picture: $(READY)  ## take docs/images/dashboard.png anew (ARGS="--also DIR": the whole page at 400 and 1280)
	@$(BIN)/python -m tests.web.picture $(ARGS)

fuzz: $(READY)  ## throw mutated bytes at the wire, and at the cores behind it, for SECONDS=60
	@$(BIN)/python -m tests.wire.fuzz --seconds $(SECONDS) $(ARGS)

storm: $(READY)  ## random worlds, churn, crashes and cuts, checked: SEEDS=1000 SHAPE=views; goes on where it stopped
	@$(BIN)/rostra sim storm --seeds $(SEEDS) --jobs 2 --held .venv/held-storms $(if $(SHAPE),--shape $(SHAPE)) $(ARGS)

explore: $(READY)  ## every order of messages and faults in small worlds: minutes, 700 MB (ARGS="--states 100000")
	@$(BIN)/rostra sim explore election $(ARGS)
	@$(BIN)/rostra sim explore election --set suspicions=0 --set crashes=1 --set changes=1 $(ARGS)
	@$(BIN)/rostra sim explore election --set replicas=2 --set attempts=3 --set changes=2 --set removals=1 $(ARGS)
	@$(BIN)/rostra sim explore election --set replicas=2 --set changes=1 --set fills=2 --set drains=1 --set suspicions=0 $(ARGS)
	@$(BIN)/rostra sim explore links $(ARGS)
	@$(BIN)/rostra sim explore set --set suspicions=1 --set gathers=1 $(ARGS)
	@$(BIN)/rostra sim explore set --set servers=4 --set changes=1 --set losses=0 --set gathers=1 $(ARGS)
	@$(BIN)/rostra sim explore reform --set changes=2 --set gathers=1 $(ARGS)
	@$(BIN)/rostra sim explore reform --set servers=4 --set links=3 --set gathers=1 $(ARGS)
	@$(BIN)/rostra sim explore living $(ARGS)
	@$(BIN)/rostra sim explore lease --set ticks=3 --set stops=0 $(ARGS)
	@$(BIN)/rostra sim explore lease --set ticks=2 $(ARGS)
	@$(BIN)/rostra sim explore lease --set ticks=1 --set joins=1 $(ARGS)
	@$(BIN)/rostra sim explore registrar --set leaves=1 $(ARGS)
	@$(BIN)/rostra sim explore registrar --set believes=3 --set fires=0 $(ARGS)
	@$(BIN)/rostra sim explore move --set restarts=1 $(ARGS)
	@$(BIN)/rostra sim explore monitor $(ARGS)
	@$(BIN)/rostra sim explore hub $(ARGS)
	@$(BIN)/rostra sim explore hub --set crashes=0 --set ticks=1 $(ARGS)
	@$(BIN)/rostra sim explore hub --set proposals=2 --set give_ups=1 $(ARGS)
	@$(BIN)/rostra sim explore hub --set proposals=2 --set give_ups=1 --set crashes=0 --set suspicions=1 $(ARGS)

explore-large: $(READY)  ## agreed views in the largest bounds that end within an hour, and the next ones, stopped: hours, 3 GB
	@$(BIN)/rostra sim explore set --set suspicions=1 --set gathers=1 --set losses=2 $(ARGS)
	@$(BIN)/rostra sim explore reform --set servers=4 --set links=3 --set gathers=1 --set changes=1 $(ARGS)
	@$(BIN)/rostra sim explore living --set members=5 --set heals=2 $(ARGS)
	@$(BIN)/rostra sim explore move --set crashes=2 --set restarts=2 $(ARGS)
	-@$(BIN)/rostra sim explore reform --set changes=2 --set suspicions=1 --set links=3 --set gathers=1 --states 17000000

soak: $(READY)  ## HOURS=1 of virtual time: churn, cuts, dead servers, 5 % lost, messages of 16 B to 100 kB
	@$(BIN)/python -m tests.faults.soak --hours $(HOURS) $(ARGS)

histories: $(READY)  ## HOURS=1 of virtual time: a replicated object and a lock under faults; do all answers fit one order? (ARGS="--seed 7")
	@$(BIN)/python -m tests.faults.histories --hours $(HOURS) $(ARGS)

histories-live: $(READY)  ## the same for SECONDS=60 with real processes: kill -9, SIGSTOP, clock steps and, as root, cuts and loss
	@PYTHONPATH=.:tests $(BIN)/python -m tests.live.histories --seconds $(SECONDS) $(ARGS)

storm-history: $(READY)  ## kill an ingest at random KILLS=20 times, then count every row: none lost, none doubled (ARGS=--s3)
	@$(BIN)/python -m tests.history.storm --kills $(KILLS) $(ARGS)

parity-history: $(READY)  ## do audits say what the simulator's checkers say? STORMS=20 of each shape
	@$(BIN)/python -m tests.history.compare --seeds $(STORMS) $(ARGS)

plant-history: $(READY)  ## change raw segments in every way, simulated and real: what does each change lead to? Ten minutes
	@$(BIN)/python -m tests.history.plants $(ARGS)

clean-history: $(READY)  ## WORLDS=100 without a fault, crowded, with clocks off and tails lost: is any promise called broken?
	@$(BIN)/python -m tests.history.clean --worlds $(WORLDS) $(ARGS)

long-storms: $(READY)  ## storms and loads that the suite leaves out, because another seed or size shows the same
	@$(BIN)/pytest -q -m long tests/faults tests/testing $(ARGS)

long-live: $(READY)  ## as root: hosts that die, are cut off or come back, in both orders, by multicast, from host to host, by the server
	@$(BIN)/pytest -q -m long tests/live $(ARGS)

long-history: $(READY)  ## the page about Spark in every session, object stores, planted changes: minutes of Spark
	@$(BIN)/pytest -q -m long tests/history $(ARGS)

cluster-history: $(READY)  ## an ingest on a Spark cluster of two workers, one of them killed: the same answer
	@$(BIN)/pytest -q -m cluster $(ARGS)

spec-coverage: $(READY)  ## which requirements of docs/spec have a test that names them (ARGS=C lists those that have none)
	@$(BIN)/python -m tests.house.spec $(ARGS)

corpus: $(READY)  ## make the recordings anew that every version must replay byte for byte (ARGS=fifo: only that one)
	@$(BIN)/python -m tests.journal.corpus $(ARGS)

goldens: $(READY)  ## rewrite the golden traces of the stories; the diff is the review
	@$(BIN)/pytest -q tests/stories tests/wire --rewrite-goldens $(ARGS)

bench: $(READY)  ## real processes beside Redis and a bare echo, as ratios (ARGS=--quick, ARGS="--only W1")
	@$(BIN)/python -m benchmarks $(ARGS)

bench-turns: $(READY)  ## W1, W2 and W4 of this build and of OLD=commit in turn: medians, change, spread (ARGS="--turns 10 --only W1")
	@$(BIN)/python -m benchmarks.turns $(or $(OLD),$(error name a commit: make bench-turns OLD=v1)) $(ARGS)

bench-history: $(READY)  ## questions and audits of made-up months, beside DuckDB, and whole commands (EVENTS="1000000 10000000")
	@$(BIN)/python -m benchmarks.history $(addprefix --events ,$(EVENTS)) $(ARGS)
	@$(BIN)/python -m benchmarks.history $(addprefix --events ,$(EVENTS)) --commands

month: $(READY)  ## make up the journals of a month, a million rows: AT=DIR (ARGS="--events 50000 --plant why")
	@$(BIN)/python -m benchmarks.sample $(AT) $(ARGS)

crowd: $(READY)  ## a thousand programs join one group at once, against the bars (ARGS="--programs 300")
	@$(BIN)/python -m benchmarks.crowd $(ARGS)

watchers: $(READY)  ## ten thousand programs that watch through one agent (ARGS="--watchers 2000")
	@$(BIN)/python -m benchmarks.watchers $(ARGS)

congress-report: $(READY)  ## the paper's claims, measured in the simulator: report/congress.html
	@$(BIN)/python -m benchmarks.congress_report $(ARGS)

atomic-report: $(READY)  ## the figures of AMp, formula against count, on the bus and on the network: report/atomic.md
	@$(BIN)/python -m benchmarks.atomic_report $(ARGS)

live-views: $(READY)  ## real processes that stand still for as long as a bound, cut one way, restart: never two living sides, ROUNDS=40 (ARGS="--seed 7")
	@$(BIN)/python -m tests.live.stopping --rounds $(ROUNDS) --audit $(ARGS)

led-report: $(READY)  ## messages and bytes of led sets, whole and compressed lists: report/led.md, led.svg
	@$(BIN)/python -m benchmarks.led_report $(ARGS)

xpand-table: $(READY)  ## the Xpand paper's table, simulated and (as root) on the lab's network: report/xpand (ARGS=--quick)
	@$(BIN)/python -m benchmarks.xpand_sim $(ARGS)
	@$(BIN)/python -m benchmarks.xpand_table $(ARGS)

wan-views: $(READY)  ## agreed views between three far sites, simulated and (as root) on the lab's network: report/wan-views.md (ARGS=--simulated)
	@$(BIN)/python -m benchmarks.wan_views $(ARGS)

xpand-growth: $(READY)  ## what travels between ten sites, for worlds of RECEIVERS="300 1000 3000 10000": a quarter of an hour
	@$(BIN)/python -m benchmarks.xpand_sim --growth $(RECEIVERS) $(ARGS)

clean:  ## forget everything that can be made again
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .rostra build dist report benchmarks/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): $(RUNS)
	@echo "adding what the workshop needs (once)" >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(RUNS): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "Rostra needs Python 3.11 or newer: apt-get install -y python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "this Python cannot make environments: apt-get install -y python3-venv" >&2; exit 1; }
	@echo "setting up .venv (once)" >&2
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@
