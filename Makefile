# What is done often, and how. `make check` is what CI runs first.

TOOL := go tool -modfile=tools/go.mod
GO_FILES = $(shell git ls-files '*.go')

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: check
check: format vet lint tidy test ## format, vet, lint, go.mod clean, tests with the race detector

.PHONY: format
format: ## fail if a file is not formatted
	@test -z "$$($(TOOL) gofumpt -l $(GO_FILES) | tee /dev/stderr)"

.PHONY: fix
fix: ## format all files
	$(TOOL) gofumpt -w $(GO_FILES)

.PHONY: vet
vet:
	go vet ./...
	cd bench && go vet ./...

.PHONY: lint
lint:
	$(TOOL) staticcheck ./...

.PHONY: tidy
tidy:
	go mod tidy -diff
	cd bench && go mod tidy -diff

.PHONY: test
test: ## tests with the race detector, in random order
	go test -race -shuffle=on -timeout 15m ./...
	go test -count=1 -run Cut ./client # at every byte: the race detector has time for samples alone
	go test -count=1 ./storewrap # around SQLite, for which it has no time either

.PHONY: fuzz
fuzz: ## each fuzz target for ten seconds
	scripts/fuzz 10s

.PHONY: examples
examples: ## the examples against a real server
	examples/quickstart.sh
	examples/curl.sh
	examples/resume.sh
	examples/replicas.sh redis postgres nats

.PHONY: mcp
mcp: ## the public conformance suite of MCP, and the SDKs of others over connections that break
	scripts/mcp-conformance
	MCP_CONFORMANCE=$${XDG_CACHE_HOME:-$$HOME/.cache}/reprise/mcp-conformance/0.2.0-alpha.12 go test -count=1 -run Conformance ./mcptask
	examples/mcp/clients.sh
	examples/mcp/clients.sh gateway

.PHONY: matrix
matrix: ## every store with the whole contract, faults of its server, and replicas that die; installs what it needs
	scripts/test matrix

.PHONY: bench
bench: ## every performance target beside its limit; see docs/performance.md
	cd bench && go run ./report

.PHONY: bench-quick
bench-quick: ## that the benchmarks run, and that nothing is lost or doubled
	cd bench && go run ./report -quick
