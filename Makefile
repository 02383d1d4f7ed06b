# Pawl. `make` lists what there is to make.
#
# Go, git and make are all that is needed; `make test-race` wants a C compiler
# and the tests of the PostgreSQL store want PostgreSQL's server programs, those of
# backups pgBackRest too.

SHELL := /bin/sh
GO ?= go
TOOL := $(GO) tool -modfile=$(CURDIR)/tools/go.mod
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

# The modules with tests, and the rest of testsum's call.
MODULES := $(patsubst %/go.mod,%,$(wildcard ./go.mod tools/go.mod test/go.mod bench/go.mod))
comma := ,
none :=
space := $(none) $(none)
TESTSUM := bin/testsum $(if $(TALLY),-tally $(TALLY)) -in
EVERYWHERE := $(subst $(space),$(comma),$(MODULES))

PKGS ?= ./...
FUZZTIME ?= 30s
KILLS ?= 1000
FREEZE ?= 5m
POINTS ?= all
KUBE_PKGS ?= ./controlplane/... ./controller/... ./runstore/... ./classic/... ./sharedstorage/... ./deploy/... ./faults/... ./cli/... ./foundationdb/...

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build

.PHONY: build
build: ## build bin/pawl and its link bin/kubectl-pawl
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/pawl ./cmd/pawl
	ln -sf pawl bin/kubectl-pawl

.PHONY: etcd
etcd: bin/etcd bin/etcdctl ## build a real etcd and etcdctl into bin/, once per version

bin/etcd bin/etcdctl: test/kubebin/go.mod test/kubebin/go.sum
	@mkdir -p bin
	$(GO) -C test/kubebin build -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ go.etcd.io/etcd/$(if $(filter bin/etcd,$@),server,etcdctl)/v3
	@touch $@

# The version of Kubernetes, and what stamps it into its programs.
KUBE_VERSION = $(shell sed -n 's,^\t*k8s.io/kubernetes \(v[0-9.]*\).*,\1,p' test/kubebin/go.mod)
KUBE_STAMP = k8s.io/component-base/version
KUBE_LDFLAGS = -s -w -X $(KUBE_STAMP).gitVersion=$(KUBE_VERSION) -X $(KUBE_STAMP).gitMajor=$(word 1,$(subst ., ,$(KUBE_VERSION:v%=%))) \
	-X $(KUBE_STAMP).gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION))) -X $(KUBE_STAMP).gitTreeState=clean

# Each program is asked for its version: whatever has the right one stays.
.PHONY: controlplane
controlplane: etcd ## build a real Kubernetes control plane and kubectl into bin/, once per version (the first time 14 minutes of CPU)
	@mkdir -p bin
	@for name in kube-apiserver kube-controller-manager kube-scheduler kubectl; do \
		case $$name in kubectl) ask='version --client';; *) ask=--version;; esac; \
		if test -x bin/$$name && bin/$$name $$ask 2>/dev/null | grep -qw '$(KUBE_VERSION)'; then continue; fi; \
		echo "building bin/$$name $(KUBE_VERSION)"; \
		$(GO) -C test/kubebin build -trimpath -ldflags '$(KUBE_LDFLAGS)' -o $(CURDIR)/bin/$$name k8s.io/kubernetes/cmd/$$name || exit 1; \
	done

.PHONY: kruise
kruise: bin/kruise-manager ## build the manager of OpenKruise into bin/, once per version (the first time some 5 minutes of CPU)

bin/kruise-manager: test/kruisebin/go.mod test/kruisebin/go.sum
	@mkdir -p bin
	$(GO) -C test/kruisebin build -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ github.com/openkruise/kruise
	@touch $@

.PHONY: prometheus
prometheus: bin/prometheus ## build a real Prometheus into bin/, once per version (the first time some 3 minutes of CPU)

bin/prometheus: test/prometheusbin/go.mod test/prometheusbin/go.sum
	@mkdir -p bin
	$(GO) -C test/prometheusbin build -trimpath -tags remove_all_sd,slicelabels -ldflags '-s -w' -o $(CURDIR)/$@ github.com/prometheus/prometheus/cmd/prometheus
	@touch $@

.PHONY: s3
s3: bin/rclone ## build rclone's object store into bin/, once per version (the first time a minute of CPU); without it the tests of backups in S3 are skipped

bin/rclone: test/s3bin/go.mod test/s3bin/go.sum test/s3bin/main.go
	@mkdir -p bin
	$(GO) -C test/s3bin build -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ .
	@touch $@

# As in controlplane: each program of Kubernetes is asked for its version.
.PHONY: node-programs
node-programs: controlplane ## build kubelet, kube-proxy, kubeadm and CoreDNS into bin/node, once per version, and what the images of the node are made of
	@mkdir -p bin/node
	@for name in kubeadm kubelet kube-proxy; do \
		case $$name in kubeadm) ask='version -o short';; *) ask=--version;; esac; \
		if test -x bin/node/$$name && bin/node/$$name $$ask 2>/dev/null | grep -qw '$(KUBE_VERSION)'; then continue; fi; \
		echo "building bin/node/$$name $(KUBE_VERSION)"; \
		$(GO) -C test/nodebin build -trimpath -ldflags '$(KUBE_LDFLAGS)' -o $(CURDIR)/bin/node/$$name k8s.io/kubernetes/cmd/$$name || exit 1; \
	done
	@CGO_ENABLED=0 $(GO) -C test/nodebin/coredns build -trimpath -ldflags '-s -w' -o $(CURDIR)/bin/node/coredns .
	@CGO_ENABLED=0 $(GO) -C test build -ldflags '-s -w' -o $(CURDIR)/bin/node/pause ./node/pause
	@CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o bin/node/pawl ./cmd/pawl
	@$(GO) -C test build -o $(CURDIR)/bin/node/real-cluster ./node/cmd

.PHONY: real-cluster
real-cluster: node-programs ## a real Kubernetes node on this machine, as root: containerd, kubelet, kube-proxy, CoreDNS; prints KUBECONFIG and stays
	@bin/node/real-cluster up

.PHONY: real-cluster-down
real-cluster-down: ## remove that node
	@bin/node/real-cluster down

.PHONY: dev-cluster
dev-cluster: build controlplane ## a Kubernetes control plane and a fake kubelet for you: prints KUBECONFIG, stays until Ctrl-C (ARGS='-mode process')
	@$(GO) -C test build -o $(CURDIR)/bin/dev-cluster ./controlplane/cmd
	@bin/dev-cluster -bin $(CURDIR)/bin $(ARGS)

.PHONY: demo
demo: build etcd ## a real etcd cluster from YAML, then a container cluster: scale, kill, heal (KEEP=1 leaves them running)
	$(GO) -C test run ./demo/cmd -root $(CURDIR) -pawl $(CURDIR)/bin/pawl -etcd $(CURDIR)/bin/etcd -etcdctl $(CURDIR)/bin/etcdctl $(if $(KEEP),-keep)

.PHONY: demo-kubernetes
demo-kubernetes: build controlplane ## Pawl on a real control plane, from deploy/install.yaml: PostgreSQL clusters, switch, failover, a killed operator (KEEP=1 leaves them running)
	$(GO) -C test run ./demo/kube/cmd -root $(CURDIR) $(if $(KEEP),-keep)

.PHONY: demo-rollout
demo-rollout: build controlplane ## five real etcd members on a real control plane, changed in batches under a client's writes: the leader last, a broken version taken back (KEEP=1 leaves them running)
	$(GO) -C test run ./demo/rollout/cmd -root $(CURDIR) $(if $(KEEP),-keep)

.PHONY: demo-fdb
demo-fdb: build controlplane ## a FoundationDB database, played by fdbsim, on a real control plane: a plan, a pod that hangs, a killed operator, an upgrade that one old client holds, two restores (KEEP=1 leaves it running)
	$(GO) -C test run ./demo/foundationdb/cmd -root $(CURDIR) $(if $(KEEP),-keep)

##@ Test

bin/testsum: $(wildcard tools/testsum/*.go) tools/go.mod
	@mkdir -p bin
	@$(GO) -C tools build -o $(CURDIR)/$@ ./testsum

.PHONY: test
test: bin/testsum build etcd s3 $(if $(filter ./...,$(PKGS)),controlplane) ## run the tests of all modules without the long ones (PKGS=./workflow/... for some of the product's)
	$(TESTSUM) $(if $(filter ./...,$(PKGS)),$(EVERYWHERE),.) -- -short -vet=off -timeout 20m $(PKGS)

# The packages whose tests ask for testing.Short.
.PHONY: test-long
test-long: bin/testsum build etcd controlplane ## the tests that make test leaves out or samples, and their packages: real etcd, clusters under faults (40 minutes on two cores)
	$(TESTSUM) . -- -count 1 -vet=off -timeout 30m ./operator/sharedstorage ./operator/sharedstorage/local
	$(TESTSUM) test -- -count 1 -vet=off -timeout 40m ./deploy ./e2e ./faults ./rollout
	$(TESTSUM) test -- -count 1 -vet=off -timeout 40m ./sharedstorage

.PHONY: test-kubernetes
test-kubernetes: bin/testsum build controlplane ## of these, the ones on a real Kubernetes control plane (KUBE_PKGS=./controlplane/... for some)
	$(TESTSUM) test -- -timeout 20m $(KUBE_PKGS)

.PHONY: test-kruise
test-kruise: bin/testsum controlplane kruise ## the tests on OpenKruise's real manager; without bin/kruise-manager the others skip them
	$(TESTSUM) test -- -count 1 -timeout 20m ./kruise/...

.PHONY: test-fdb
test-fdb: bin/testsum build controlplane ## the lives of simulated FoundationDB databases on a real control plane, whole; the others take a sample
	PAWL_TEST_FDB=whole $(TESTSUM) . -- -count 1 -timeout 30m ./operator/foundationdb/clusters
	PAWL_TEST_FDB=whole $(TESTSUM) test -- -count 1 -timeout 1h ./foundationdb
	PAWL_TEST_FDB=whole $(TESTSUM) test -- -count 1 -timeout 20m -run FoundationDB ./e2e

.PHONY: test-node
test-node: node-programs ## start a real Kubernetes node on this machine, as root, run the tests of test-cluster on it, and remove it
	@test ! -e /var/lib/pawl-node || { echo 'a node is on this machine: make real-cluster-down'; exit 1; }
	@status=0; bin/node/real-cluster up && $(MAKE) test-cluster KUBECONFIG=/var/lib/pawl-node/admin.conf || status=1; \
	bin/node/real-cluster down || status=1; exit $$status

.PHONY: test-cluster
test-cluster: ## the tests of shared-storage clusters on a real Kubernetes cluster of yours: KUBECONFIG=FILE (PAWL_TEST_IMAGE names the image of Pawl)
	@test -n '$(KUBECONFIG)' || { echo 'usage: make test-cluster KUBECONFIG=FILE'; exit 2; }
	PAWL_TEST_KUBECONFIG=$(abspath $(KUBECONFIG)) $(GO) -C test test -count 1 -timeout 40m -v ./realcluster

# Transcripts show times, which the detector stretches: they run without it.
# Lives of clusters take ten times as long with it: a sample of them runs.
RACED = $(shell $(GO) list $(PKGS) | grep -v -e '/docs/guide$$' -e '/cmd/pawl$$' -e '/foundationdb/clusters$$')

.PHONY: test-prometheus
test-prometheus: bin/testsum controlplane prometheus ## the tests on a real Prometheus; without one the others skip them
	$(TESTSUM) test -- -count 1 -timeout 20m -run '^TestMetric$$' ./rollout

.PHONY: test-race
test-race: bin/testsum ## run the tests of the product under the race detector
	$(TESTSUM) . -- -race -timeout 30m $(RACED)
	$(TESTSUM) . -- -race -timeout 30m -run '^TestStories$$/^(create|knob|replace_by_list|incompatible_upgrade_of_the_split_image)$$' ./operator/foundationdb/clusters

.PHONY: test-crash
test-crash: bin/testsum ## the tests named TestCrash… and TestKill…, with KILLS=1000 kills each, and FREEZE=5m of frozen servers
	PAWL_TEST_KILLS=$(KILLS) $(TESTSUM) $(EVERYWHERE) -- -count 1 -timeout 40m -run '^Test(Crash|Kill)' ./...
	PAWL_TEST_FREEZE=$(FREEZE) $(TESTSUM) . -- -count 1 -timeout 40m -run '^TestFinding[23]' ./cmd/pawl

.PHONY: test-points
test-points: bin/testsum build controlplane ## one run for each point of a crash, where the others take samples: hours (POINTS=40 for larger samples)
	PAWL_CRASH_STEP=1 $(TESTSUM) . -- -count 1 -timeout 1h -run '^Test(Crashes|Finding28DeletionsInEveryFlow)$$' ./operator/sharedstorage
	PAWL_CRASH_STEP=1 $(TESTSUM) . -- -count 1 -timeout 6h -run '^Test(CrashPoints|StuckGroup|UpgradeTakenBack)$$' ./operator/foundationdb/clusters
	PAWL_LIVES=1000 PAWL_STEPS=50 $(TESTSUM) . -- -count 1 -timeout 6h -run '^TestManyLives$$' ./operator/foundationdb/clusters
	PAWL_TEST_FDB=whole PAWL_LIVES=100 PAWL_STEPS=10 $(TESTSUM) . -- -count 1 -timeout 6h -run '^TestRandom(Fleets|Halls|Regions)$$' ./operator/foundationdb/clusters
	PAWL_SHAREDSTORAGE_ROUNDS=20 $(TESTSUM) . -- -count 1 -timeout 30m ./operator/sharedstorage/local
	PAWL_TEST_POINTS=$(POINTS) $(TESTSUM) . -- -count 1 -timeout 6h -run '^Test(Explore|TwoServers)' ./cluster/service
	PAWL_TEST_POINTS=$(POINTS) $(TESTSUM) test -- -count 1 -timeout 6h ./faults
	PAWL_TEST_POINTS=$(POINTS) $(TESTSUM) test -- -count 1 -timeout 2h -run '^Test(CrashAtEachWrite|FrozenLeader|APIServerAway|Delete|Disturbed)$$' ./rollout
	PAWL_TEST_POINTS=$(POINTS) $(TESTSUM) test -- -count 1 -timeout 2h -run '^Test(CrashAtEachWrite|FrozenLeader|APIServerAway|DeleteAtEachStage|Disturbed)$$' ./application
	PAWL_TEST_PAIRS=1 $(TESTSUM) test -- -count 1 -timeout 3h -run '^TestFinding28Deleted(AtRest|InEachFlow)$$' ./sharedstorage

.PHONY: test-real
test-real: bin/testsum ## the conformance suite of the FoundationDB tools against real ones: FDB_BIN=<folder>, with <folder>/7.3.69/fdbserver, fdbcli, fdbbackup and fdbrestore
	FDB_BIN=$(abspath $(FDB_BIN)) $(TESTSUM) . -- -count 1 -timeout 20m -run '^TestRealDatabase$$' ./operator/foundationdb/tool

.PHONY: test-browser
test-browser: build ## the console in Chromium, against a real server (installs playwright-core; Chromium too when it may)
	@command -v npm >/dev/null || { echo "skipped: npm is missing"; exit 0; }; \
	test -x "$${CHROMIUM:-/usr/bin/chromium}" || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || true; \
	npm --prefix test/browser ci --silent --no-audit --no-fund || echo "playwright-core could not be installed"; \
	$(GO) -C test build -o $(CURDIR)/bin/ ./browser/fill ./browser/stage ./browser/databases || exit 1; \
	cd test/browser && TALLY=$(if $(TALLY),$(abspath $(TALLY))) PAWL=$(CURDIR)/bin/pawl FILL=$(CURDIR)/bin/fill STAGE=$(CURDIR)/bin/stage DATABASES=$(CURDIR)/bin/databases node --test --test-concurrency=1 --test-reporter=./reporter.mjs --test-reporter-destination=stdout *.test.mjs

.PHONY: pictures
pictures: build ## the pictures of docs/pictures: pages of the console on a real server, light and dark (needs Chromium)
	npm --prefix test/browser ci --silent --no-audit --no-fund
	PAWL=$(CURDIR)/bin/pawl node test/browser/pictures.mjs

.PHONY: test-release
test-release: bin/testsum bin/nfpm ## write a release, install its deb on a copy of this machine, start, upgrade, remove and purge it (as root)
	PAWL_TEST_RELEASE=1 $(TESTSUM) tools -- -count 1 -timeout 30m ./release

.PHONY: fuzz
fuzz: ## run each fuzz test for FUZZTIME=30s
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r pkg; do \
		sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$$pkg"/*_test.go | while read -r name; do \
			echo "$$pkg $$name"; \
			$(GO) -C "$$pkg" test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s . </dev/null || exit 1; \
		done || exit 1; \
	done

.PHONY: bench
bench: build ## measure, beside the raw loops and peers (bench/README.md)
	$(GO) -C bench run .

##@ Release

# The version stands in the chart. A commit without its tag makes a snapshot of it.
RELEASE = $(shell sed -n 's/^version: //p' deploy/chart/Chart.yaml)
SNAPSHOT = $(if $(filter v$(RELEASE),$(shell git tag --points-at HEAD)),,-snapshot.g$(shell git rev-parse --short=8 HEAD))
PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64

bin/nfpm: tools/nfpm/go.mod tools/nfpm/go.sum
	@mkdir -p bin
	$(GO) -C tools/nfpm build -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ github.com/goreleaser/nfpm/v2/cmd/nfpm
	@touch $@

.PHONY: release
release: bin/nfpm ## dist/: archives, deb, rpm, image, chart, krew manifest, SBOM and checksums; of the tag, else of a snapshot (PLATFORMS=linux/amd64 for some)
	$(GO) -C tools build -o $(CURDIR)/bin/release ./release
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) bin/release -version $(RELEASE)$(SNAPSHOT) -out dist -nfpm bin/nfpm -platforms $(PLATFORMS)

.PHONY: clients
clients: ## dist/: the TypeScript client of the HTTP API, generated from docs/openapi.yaml (needs npm)
	npm --prefix tools/clients/typescript ci --silent --no-audit --no-fund
	npm --prefix tools/clients/typescript run --silent generate
	@mkdir -p dist
	cd tools/clients/typescript && npm pack --silent --pack-destination $(CURDIR)/dist

.PHONY: test-clients
test-clients: build ## the generated client against a real server (needs npm)
	@command -v npm >/dev/null || { echo "skipped: npm is missing"; exit 0; }; $(MAKE) clients && \
	cd tools/clients/typescript && TALLY=$(if $(TALLY),$(abspath $(TALLY))) PAWL=$(CURDIR)/bin/pawl node --test --test-reporter=../../../test/browser/reporter.mjs --test-reporter-destination=stdout client.test.mjs

##@ Check

.PHONY: verify
verify: check test ## all that a change must pass

.PHONY: check
check: format vet lint fresh imports ## verify without the tests

.PHONY: format
format: ## say which files are not formatted
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted, run gofmt -w:" $$unformatted; exit 1; }

.PHONY: vet
vet: ## go vet in all modules
	@failed=0; for dir in $(MODULES); do echo "vet $$dir"; $(GO) -C $$dir vet ./... || failed=1; done; exit $$failed

.PHONY: lint
lint: ## golangci-lint in all modules (the first time it is compiled: a minute and a half)
	@failed=0; for dir in $(MODULES); do echo "lint $$dir"; (cd $$dir && $(TOOL) golangci-lint run ./...) || failed=1; done; exit $$failed
	@$(MAKE) -s deadcode

.PHONY: deadcode
deadcode: ## functions that neither a program nor a test of any module reaches
	@echo "deadcode"; $(GO) build -modfile=$(CURDIR)/tools/go.mod -o bin/deadcode golang.org/x/tools/cmd/deadcode
	@{ echo "go 1.26.0"; for dir in . test bench tools; do echo "use ../$$dir"; done; } >bin/go.work
	@found=$$(GOWORK=$(CURDIR)/bin/go.work bin/deadcode -test ./... ./test/... ./bench/... ./tools/...) || exit 1; \
	test -z "$$found" || { echo "$$found"; echo "remove these, or give them a user"; exit 1; }

.PHONY: sizes
sizes: ## how large packages and receivers are
	@$(GO) -C tools run ./sizes

.PHONY: imports
imports: ## the import table and the links of the documents
	$(GO) test -count 1 .

.PHONY: generate
generate: ## write the generated files anew
	$(GO) generate ./...
	$(GO) -C tools generate ./...

.PHONY: fresh
fresh: ## fail when a generated file is not what make generate writes
	@before=$$(git diff | git hash-object --stdin; git ls-files -o --exclude-standard); \
	$(MAKE) -s generate || exit 1; \
	after=$$(git diff | git hash-object --stdin; git ls-files -o --exclude-standard); \
	test "$$before" = "$$after" || { git --no-pager diff --stat; echo "generated files were stale: look at the change and commit it"; exit 1; }

.PHONY: vuln
vuln: ## known vulnerabilities in what is used (asks https://vuln.go.dev, and goes on where that cannot be reached)
	@said=$$(mktemp) && trap 'rm -f "$$said"' EXIT; \
	if $(TOOL) govulncheck ./... >"$$said" 2>&1; then cat "$$said"; \
	elif grep -q '^Vulnerability #' "$$said"; then cat "$$said"; exit 1; \
	elif grep -q 'https://vuln\.go\.dev' "$$said"; then cat "$$said"; echo 'not checked: https://vuln.go.dev cannot be reached from here'; \
	else cat "$$said"; exit 1; fi

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
