# Every target works from a fresh clone; `make help` lists them.

GO      ?= go
BUILD   := build
LINT    := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -X main.version=$(VERSION)
FUZZ    ?= 5000x
# Without vet, which has a target of its own, and without what a debugger needs: both take long for so many binaries. With one
# processor for each of them, as two that run the timers of one bubble share what the detector knows of them, and now and then
# crash it.
RACE    := $(GO) test -race -vet=off -ldflags=-w -timeout 30m -cpu 1

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the binary build/warmring
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BUILD)/warmring ./cmd/warmring

.PHONY: demo
demo: build ## start three routers and seven simulated model servers on this machine (Ctrl-C stops them)
	$(BUILD)/warmring demo $(ARGS)

.PHONY: test
test: ## run the tests (Go is all they need)
	$(GO) test ./...

.PHONY: race
race: ## run the tests with the race detector, but for those of processes, which are built without it
	$(RACE) -short $$($(GO) list ./... | grep -Ev '/test/(sim|cluster|deploy)$$')
	test/sim/shards.sh 2 'RandomFaults|LeaderIsLost|Counts|Rolling|Lease|Planted' -race -ldflags=-w

.PHONY: fuzz
fuzz: ## run each fuzz target with some thousand inputs (FUZZ=5000x)
	@GO="$(GO)" test/fuzz.sh $(FUZZ)

SEEDS ?= 50

.PHONY: sim
sim: ## run whole clusters in virtual time with many seeds (SEEDS=50)
	test/sim/shards.sh $(SEEDS)

.PHONY: soak
soak: ## the same with thousands of seeds that no run has had yet, and 24 hours of churn (SOAK=2000; takes most of a day)
	SIM_BASE=$$(date +%s) SIM_HOURS=24 test/sim/shards.sh $(or $(SOAK),2000)

.PHONY: conformance
conformance: ## run the Python and Node SDKs against a router (installs them under build/)
	test/conformance/install.sh
	WARMRING_SDKS=1 $(GO) test -count=1 -run TestSDKs ./test/conformance

.PHONY: bench
bench: ## run the micro-benchmarks of the routing path
	$(GO) test -run '^$$' -bench . -benchmem ./api ./api/openai ./api/http1 ./routing/... ./node/telemetry

.PHONY: bench-overhead
bench-overhead: build ## compare the router's overhead with haproxy's and nginx's (Debian packages haproxy, nginx-light)
	$(GO) run ./test/bench/overhead $(ARGS)

.PHONY: bench-cluster
bench-cluster: ## measure a cluster of routers: agreement, view, cost, failover (about 15 minutes; ARGS=-quick for one)
	@mkdir -p $(BUILD)
	$(GO) build -o $(BUILD)/bench-cluster ./test/bench/cluster
	$(BUILD)/bench-cluster $(ARGS)

.PHONY: bench-routing
bench-routing: ## compare the routing policies in whole clusters in virtual time (a few minutes; ARGS=-short for less than one)
	@mkdir -p $(BUILD)
	$(GO) build -o $(BUILD)/bench-routing ./test/bench/routing
	$(BUILD)/bench-routing $(ARGS)

.PHONY: test-engine
test-engine: build ## route to real llama.cpp engines with a small model (installs them under build/; about 5 minutes)
	test/engine/install.sh
	$(GO) test -tags engine -count=1 -timeout 30m -v ./test/engine

.PHONY: fmt
fmt: ## format the code
	$(LINT) fmt

.PHONY: lint
lint: ## check formatting, lint and go.mod
	$(LINT) fmt --diff
	$(LINT) run
	$(LINT) run --build-tags engine ./test/engine/...
	$(GO) mod tidy -diff

.PHONY: vet
vet: ## run go vet
	$(GO) vet ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BUILD)
