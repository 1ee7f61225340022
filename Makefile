# `make help` lists the targets. `make test` is what .ci/run calls.

GO       ?= go
TESTENV  := $(GO) run ./internal/test/testenv/cmd/testenv
# Of one package. tools/e2e needs a third of it on two cores.
TIMEOUT  ?= 30m
FUZZTIME ?= 10s
# Of each Go benchmark. All of them and the reports take some fifteen minutes on two idle cores; with QUICK=1 half of that.
BENCHTIME ?= 100ms
SEEDS    ?= 20000
SEED     ?= 1
DURATION ?= 10m
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# Without paths of this clone, builds, vet and staticcheck of another clone are found in the caches. Without data for debuggers, a fifth of the
# time to compile is saved.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath -gcflags=all=-dwarf=false)

# The race detector needs cgo, which is off where there is no C compiler. The tests run then without it, and say so.
RACE     := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
# The pure packages and their tests start no goroutine, which internal/lint holds them to: the race detector finds nothing in these tests
# and makes them six times as slow. It watches the same code in tests of packages that run it side by side.
PURE := policy delay stream/event stream/experiment stream/partition stream/replay stream/task
# So do these, which internal/lint holds to it too, and internal/lab, internal/dashboard and internal/app, which leave what starts none out
# where the race detector runs (go:build !race).
PLAIN := config docs internal/deadlines internal/evaluate internal/joinedlog internal/learners internal/lift internal/lint internal/plotting internal/plural \
	internal/simulate internal/test/memstore internal/test/theoremtest stream/wire
# They have servers and deadlines, and start no goroutine, or their goroutines are in tools/e2e too, which runs under the race detector.
SERVED := state/redisstore internal/connectivity internal/login internal/sizing internal/test/testenv internal/tracing \
	tools/bench tools/checker tools/deploy tools/examples tools/faults tools/laboratory tools/page tools/producers tools/release
UNRACED = $(patsubst %,./%/...,$(PURE) $(PLAIN) $(SERVED))
RACED = $(filter-out $(shell $(GO) list $(UNRACED)),$(shell $(GO) list ./... ./tools/...))
# Tests have small heaps, which would be collected all the time, and look at no profile of memory: a seventh of what they compute.
TEST = env GOGC=400 GODEBUG=memprofilerate=0 $(GO) test -count=1 -vet=off -timeout $(TIMEOUT)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Without grpc's own pages of traces, which nothing serves, the program is 5 MB smaller.
.PHONY: build
build: ## Build bin/ranker-worker, static.
	CGO_ENABLED=0 $(GO) build -trimpath -tags grpcnotrace -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ranker-worker ./cmd/ranker-worker

.PHONY: image
image: ## The container image ranker-worker, with this version and commit; BASE_IMAGE and GO_IMAGE by digest for a release.
	docker buildx build -f deploy/Dockerfile -t ranker-worker:$(VERSION) -t ranker-worker --load \
		--build-arg VERSION=$(VERSION) --build-arg COMMIT=$(shell git rev-parse HEAD) \
		--build-arg SOURCE_DATE_EPOCH=$(shell git log -1 --format=%ct) \
		$(if $(BASE_IMAGE),--build-arg BASE_IMAGE=$(BASE_IMAGE)) $(if $(GO_IMAGE),--build-arg GO_IMAGE=$(GO_IMAGE)) .

.PHONY: test
# -count=1: tests of tools/ read pages and manifests outside their module, whose changes go test's cache does not see.
test: tools ## Lint, and every test, on a real Apache Kafka and a real Redis.
	@$(if $(RACE),,echo 'test: no C compiler, so the race detector is left out: apt-get install gcc libc6-dev')
	$(TESTENV) -- $(MAKE) --no-print-directory -j4 LOW='nice -n 10' raced others statistics lint

.PHONY: compiled
compiled: # once, for all that goes on side by side then; go build would link all commands besides
	@$(GO) list -export -test -f '{{/* nothing */}}' ./... ./tools/...

.PHONY: statistics
statistics: compiled # what needs no server and starts no goroutine; with lint it computes while tests of servers wait
	@$(LOW) $(TEST) -p 2 ./internal/lab ./stream/task ./internal/dashboard ./internal/app $(patsubst %,./%/...,$(PURE) $(PLAIN))

.PHONY: raced
# The longest come first. Tests with servers wait for half of their time or more: two packages at once here and in others, and three tests of
# tools/e2e, keep two cores busy and let none starve.
raced:
	@$(TEST) -p 2 -parallel 3 $(RACE) ./tools/e2e ./stream/broker $(RACED)

.PHONY: others
others: compiled # tests of tools/checker wait for nine tenths of their time
	@$(TEST) -p 2 -parallel 6 $(patsubst %,./%/...,$(SERVED))
	@$(TEST) -run '^TestUnraced_' ./tools/e2e

.PHONY: check
check: ## For the edit loop: lint, and test-short of what has changed.
	@$(MAKE) --no-print-directory -j2 lint test-short VET=-vet=off

.PHONY: test-short
test-short: compiled ## The tests that need no real Kafka and no real Redis; needs Go only.
	@echo 'test-short: a real Apache Kafka and a real Redis are left out; "make test" is the whole run.'
	RANKER_TEST_SHORT=1 GOGC=400 $(GO) test $(VET) -timeout $(TIMEOUT) ./... ./tools/...

.PHONY: lint
lint: compiled ## gofmt, go vet, staticcheck, and govulncheck where its database can be reached.
	@$(LOW) ./scripts/lint

.PHONY: tools
tools: ## Java, Maven, Python, npm, Chromium, redis-server, Kafka's jars and librdkafka: installed (Debian, as root), or said in a line what is missing.
	@./scripts/tools

.PHONY: bench
bench: tools ## All benchmarks, then tables of the whole pipeline, of growth and beside Kafka Streams, on a real Apache Kafka and a real Redis (docs/contribute/benchmarks.md); QUICK=1 for less.
	$(TESTENV) -bench -heap 1g -- sh -c "$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -timeout 20m ./... ./tools/... \
		&& $(GO) run ./tools/bench/cmd/report && $(GO) run ./tools/bench/cmd/report growth $(if $(QUICK),-quick) \
		&& $(GO) run ./tools/bench/cmd/report peers $(if $(QUICK),-quick)"

.PHONY: matrix
matrix: tools ## The servers that are supported: store, broker and pipeline on each; writes docs/reference/tested-servers.md. FLAGS='-row valkey', '-list'.
	$(GO) run ./tools/matrix $(FLAGS)

.PHONY: fuzz
fuzz: ## Each fuzz target for FUZZTIME (10s).
	@./scripts/fuzz $(FUZZTIME)

.PHONY: model
model: SHELL := /bin/bash
model: .SHELLFLAGS := -o pipefail -c
model: ## The protocol of one partition under simulated faults: SEEDS (20000) schedules in all, each kind's from SEED (1) on.
	@$(GO) test ./stream/task -run '^(TestProtocol|TestMutations)' -schedules $(SEEDS) -seed $(SEED) -timeout 0 -v | \
		grep -E 'schedules,|violation|-seed|^(---|FAIL|PASS|ok|panic)'

.PHONY: soak
soak: tools ## Faults on real workers, Kafka and Redis for DURATION (10m), from SEED (1); FLAGS='-each', '-match redis', '-list'.
	@$(GO) run ./tools/faults/cmd/soak -duration $(DURATION) -seed $(SEED) $(FLAGS)

.PHONY: demo
demo: ## The whole system in one process, on loopback: what it learns, and what it accounts for.
	$(GO) run ./cmd/ranker-worker demo

.PHONY: laboratory
laboratory: ## Tables and plots below docs/laboratory: some 10 minutes on two cores.
	$(GO) run ./tools/laboratory

.PHONY: movielens
movielens: tools ## MovieLens-100k through a real Apache Kafka and the worker; FLAGS='-policies greedy …' for less.
	$(TESTENV) -bench -heap 1g -- $(GO) run ./tools/examples/movielens $(FLAGS)

.PHONY: release
release: ## The files of a release in dist/: programs, chart, bills of materials, checksums; VERSION=0.1.0. The same commit gives the same bytes.
	@$(GO) run ./tools/release -version '$(VERSION)'

.PHONY: verify-release
verify-release: ## Check the files in dist/ against their checksums and bills of materials; VERSION=0.1.0.
	@$(GO) run ./tools/release -verify -version '$(VERSION)'

.PHONY: clean
clean: ## Remove what was built. What was downloaded stays in .cache.
	rm -rf bin dist
