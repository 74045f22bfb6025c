# What is done often, and how. CI runs scripts/test, whose stages and nightly parts are targets here.

TOOL := go tool -modfile=scripts/tools/go.mod
GO_FILES = $(shell git ls-files '*.go')

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: check
check: format vet lint tidy test ## format, vet, lint, go.mod clean, and the Go tests of the gate

.PHONY: format
format: ## fail if a file is not formatted
	@test -z "$$($(TOOL) gofumpt -l $(GO_FILES) | tee /dev/stderr)"

.PHONY: fix
fix: ## format all files
	$(TOOL) gofumpt -w $(GO_FILES)

.PHONY: generate
generate: ## what is made of other files and is checked in: openapi.yaml of its pieces, types of clients, docs/settings.md
	go test -count=1 ./internal/api -run OpenAPIIsAssembled -update
	go test -count=1 ./internal/clienttest -run GeneratedTypes -update
	go test -count=1 ./cmd/reprise -run SettingsReference -update

.PHONY: hooks
hooks: ## check format, width, vet and lint of what is committed, before each commit
	git config core.hooksPath scripts/hooks

.PHONY: vet
vet:
	go vet ./...
	cd bench && go vet ./...
	cd x && go vet ./...

.PHONY: lint
lint: ## staticcheck with more analyzers (what is off, and why, is in staticcheck.conf), and phrases that readers stumble over
	go -C scripts/tools build -o ../../bin/lint ./lint
	bin/lint ./...
	cd x && ../bin/lint ./...
	go -C scripts/tools test ./... # that they find planted faults, and that images are whole
	go -C scripts/tools run ./words ../..

.PHONY: tidy
tidy:
	go mod tidy -diff
	cd bench && go mod tidy -diff
	cd x && go mod tidy -diff

# On Windows the tests of these packages do not compile: they send signals to processes.
UNIX_TESTS := cmd/reprise|internal/archive/remoteserver|internal/console|internal/execution|internal/linear|mcp/mcphttp

.PHONY: systems
systems: ## that all packages and their tests compile for macOS and Windows, and what vet says of them there
	GOOS=darwin GOARCH=arm64 go vet ./...
	GOOS=windows GOARCH=amd64 go vet $$(GOOS=windows go list ./... | grep -vE '^reprise/($(UNIX_TESTS))$$')
	GOOS=windows GOARCH=amd64 go build $$(GOOS=windows go list ./... | grep -E '^reprise/($(UNIX_TESTS))$$')

.PHONY: build
build: ## both programs, into bin/
	go build -buildvcs=auto -o bin/ ./cmd/... # with the commit, for reprise version

.PHONY: release
release: ## archives, checksums and SBOMs of this commit, into bin/release; see docs/internals/releasing.md
	scripts/release

.PHONY: site
site: ## the documentation as a site with a search, into .cache/site/html; that the search answers scripts/questions.tsv
	scripts/site

.PHONY: mcpb
mcpb: ## a desktop bundle for MCP hosts, of this machine and this tree, into bin/
	scripts/mcp-packages here

.PHONY: test
test: ## the Go tests of the gate, each once; the race detector where the goroutines are ours
	scripts/gotest race
	scripts/gotest plain

.PHONY: race-all
race-all: ## all Go tests with the race detector, in random order
	go test -race -shuffle=on -vet=off -timeout 30m ./... # make vet has looked at all of it
	cd x && go test -race -shuffle=on -vet=off ./...

.PHONY: clients
clients: ## every client through the suite of reprise check-client: cut at every byte, 300 times in 20,000 events, servers killed
	scripts/check-clients

.PHONY: faces
faces: ## SDKs of other systems, unchanged, through cuts and a SIGKILL of the server
	examples/faces/execd.sh
	examples/faces/durable.sh
	examples/faces/e2b.sh
	examples/faces/genkit.sh
	examples/faces/assistant-ui.sh
	examples/relay.sh

.PHONY: rust-client
rust-client: ## the example in Rust through the suite; it needs cargo
	scripts/check-clients rust

.PHONY: webhooks
webhooks: ## webhooks of a real server to receivers that use the official libraries for JavaScript, Python and Go
	scripts/check-webhooks

.PHONY: packages
packages: ## the Debian package, installed, upgraded, removed and purged below an empty file system; as root, with dpkg
	scripts/check-deb

.PHONY: systemd
systemd: ## the unit files under a systemd that is booted in a container; as root, with systemd-nspawn
	scripts/check-systemd

.PHONY: otlp
otlp: ## traces and metrics of a real server to a whole OpenTelemetry Collector, which it builds
	scripts/check-otlp

.PHONY: sse-contract
sse-contract: ## sseclient through the service contract of the public suite sse-contract-tests
	scripts/sse-contract

.PHONY: console
console: ## build the web console anew, into internal/console/dist; needs Node
	cd internal/console/web && npm ci --no-audit --no-fund && npm run build

.PHONY: console-check
console-check: ## types and tests of the web console, and that internal/console/dist is what its sources make
	scripts/console

.PHONY: openapi
openapi: ## openapi.yaml: redocly, generated clients in four languages at work, schemathesis for a minute
	scripts/openapi

.PHONY: sdk-typescript
sdk-typescript: ## the TypeScript client: build, and tests against a server; needs Node 20 with npm
	scripts/sdk-typescript

.PHONY: sdk-runtimes
sdk-runtimes: ## the TypeScript client in Deno and Bun, after sdk-typescript; the Python client with every SDK of MCP
	scripts/sdk-runtimes
	scripts/sdk-python --full

.PHONY: vulncheck
vulncheck: ## known vulnerabilities in what the programs link
	scripts/vulncheck

.PHONY: fuzz
fuzz: ## each fuzz target for ten seconds
	scripts/fuzz 10s

.PHONY: examples
examples: examples-short ## the examples against a real server, on all engines
	examples/outlive.sh
	examples/readers.sh
	examples/replicas.sh redis postgres nats
	examples/team/team.sh

.PHONY: examples-short
examples-short: ## the examples of a newcomer
	examples/pages.sh README.md docs/streams.md
	examples/curl.sh
	examples/resume.sh
	examples/interpreter.sh
	go run ./examples/operation

.PHONY: mcp
mcp: ## the public conformance suite of MCP, and the SDKs of others over connections that break
	scripts/mcp-conformance
	MCP_CONFORMANCE=$${XDG_CACHE_HOME:-$$HOME/.cache}/reprise/mcp-conformance/0.2.0-alpha.12 go test -count=1 -run Conformance ./mcp/mcptask
	examples/mcp/clients.sh
	examples/mcp/clients.sh gateway
	examples/mcp/clients.sh long
	examples/mcp/rotation.sh
	examples/mcp/oauth.sh

.PHONY: mcp-hosts
mcp-hosts: ## each configuration of docs/mcp-hosts.md, with the command line of MCP's Inspector
	scripts/mcp-hosts

.PHONY: soak
soak: ## small disks filled 400 times, servers killed 200 times under ten commands, 200 short commands a second for a minute, a million MCP calls and refused requests, the default wait of MCP, disorder at random, all hostile requests; three quarters of an hour
	go test -count=1 -timeout 30m -v -run 'TestFinishedCallsCostNothing' ./mcp/mcphttp -finished 1000000
	REPRISE_TEST_SOAK=1 go test -count=1 -timeout 60m -v -run 'TestFullDiskAgainAndAgain|TestServerIsKilledWhile|TestServerTakesUpHundredCommandsAfterAKill|TestDefaultWait|TestHostileRequests' ./cmd/reprise
	REPRISE_TEST_SOAK=1 go test -count=1 -timeout 30m -v -run 'TestShortCommandsLeave|TestOneByteAWrite|TestMuchOutput|TestReplicasComeAndGo|TestDisorder' ./internal/execution
	REPRISE_TEST_SOAK=1 go test -count=1 -timeout 30m -v -run 'TestRefusedRequestsLeaveNothing|TestManyPrincipals' ./internal/api

.PHONY: sdk-python
sdk-python: ## the Python client: style, types, its tests against a real server, and its wheel in an empty environment
	scripts/sdk-python

.PHONY: nightly
nightly: ## all that is slow or random; see docs/internals/testing.md
	scripts/test nightly

.PHONY: torture
torture: torture-sim torture-disks torture-outside ## the simulator with 1,000 seeds, then servers that are killed, cut off, promoted and run out of disk; ten minutes

.PHONY: torture-sim
torture-sim:
	go test -count=1 -timeout 30m -v -run 'TestSim$$' ./internal/sim -seeds 1000

.PHONY: torture-disks
torture-disks: # that a loss of power may leave, and two days of churn
	CRASH_STATES=3000000 go test -count=1 -timeout 60m -v -run 'CrashStates|TwoDays' ./store/logstore

.PHONY: torture-outside
torture-outside:
	go run ./internal/torture -for 10m

.PHONY: mutants
mutants: ## that the tests of the promises can fail: faults in the code, each found by a test; after sdk-typescript
	go run ./internal/mutants

.PHONY: matrix
matrix: ## every store with the whole contract, faults of its server, and replicas that die
	go test -timeout 12m ./store/... ./internal/... ./replica
	examples/replicas.sh redis postgres nats

.PHONY: bench
bench: ## every performance target beside its limit, and that nothing became slower; see docs/internals/performance.md
	cd bench && go run ./report -against last

.PHONY: bench-quick
bench-quick: ## that the benchmarks run, and that nothing is lost or doubled
	cd bench && go run ./report -quick
	cd bench && go run ./path -store memory -requests 500 -rounds 20 -readers 50
	cd bench && go run ./growth -quick
