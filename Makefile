# Millwright. `make help` lists what people do here.

SHELL      := /bin/bash
.DEFAULT_GOAL := help
KUBERNETES := v1.36.3
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GO         ?= go
# -trimpath: the same binaries, and one build cache, whatever directory the repository lies in.
GOFLAGS    += -buildvcs=false -trimpath
export GOFLAGS
export CGO_ENABLED := 0
# Property tests draw the same cases each time; RAPID_SEED=0 draws new ones.
export RAPID_SEED ?= 1
BIN        := $(CURDIR)/bin
STATE      := $(CURDIR)/.local
LDFLAGS    := -s -w -X millwright/services/version.Version=$(VERSION)
KUBE_LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES) \
	-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36
TOOL       := $(GO) tool -modfile=$(CURDIR)/tools/gen/go.mod
# With RERUN=1 an end-to-end test that failed runs once more, alone; .local/rerun-e2e-only names those that did. No
# other test is ever run again: what fails once is a defect, of the code or of the test.
RERUN      ?= 0
GOTESTSUM   = @mkdir -p $(STATE) && $(TOOL) gotestsum
# How many tests run at once: a third of their time they wait, for servers, for leases, for nodes to boot. An end-to-end test, which
# needs 10 to 20 seconds of CPU in 40, waits for most of it: of these twice as many as there are cores.
CORES      := $(shell getconf _NPROCESSORS_ONLN)
AT_ONCE    ?= $(shell echo $$(($(CORES) + ($(CORES) + 1) / 2)))
E2E_AT_ONCE ?= $(shell echo $$((2 * $(CORES))))
# The packages that start goroutines, for the race detector; services/sim has a single thread. It makes everything five to ten times
# slower: tests of sizes and of every fault around every call take fewer (-short), and what is skipped plans or writes in bulk on one
# goroutine.
RACE        = $(shell $(GO) list ./events/... ./store/... ./services/... ./tools/ec2sim/... | grep -v '^millwright/services/sim')
RACE_SKIP  := TestPricesInLocalZones|TestOptionsChangeWhatPodsGet|TestAllocatableOfKnownTypes|TestLocalAndWavelengthZonesOfferWhatTheyHaveToThoseWithASubnetThere|TestABurstIsPackedNoWorseThanWithALongWindow|TestTurnoverLeavesNothingForEver|TestWeekOfLoadNeverFillsTheDatabase|TestScaledDownDeploymentsComeToRest|TestTwentyThousandPodsFromAPipe|TestBundlesOfTheCorpus
# Packages are tested in the order of this list; one that takes minutes and comes last would leave the cores idle.
LONGEST    := millwright/store/etcdlog millwright/store/audit/pseudonyms millwright/tools/millctl millwright/services/internal/retention millwright/events/natsbus
# What simulates histories: minutes of CPU on a virtual clock, whatever else the machine does.
SIMULATION := millwright/services/sim millwright/tools/simrun
UNIT        = $(LONGEST) $(filter-out $(LONGEST) $(SIMULATION),$(shell $(GO) list ./... | grep -v '^millwright/tools/e2e'))
COMMANDS   := millwright:./services/cmd/millwright millctl:./tools/millctl ec2sim:./tools/ec2sim demo:./tools/demo

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

.PHONY: build
build: ## build millwright, millctl, ec2sim, localcluster and demo into bin/
	@mkdir -p $(BIN)
	@for c in $(COMMANDS); do \
		echo "building bin/$${c%%:*}"; \
		$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/$${c%%:*} $${c##*:} || exit 1; \
	done
	@$(MAKE) --no-print-directory bin/localcluster

bin/etcd: go.mod
	@mkdir -p $(BIN)
	$(GO) build -ldflags '-s -w' -o $@ go.etcd.io/etcd/server/v3

bin/etcdctl: go.mod
	@mkdir -p $(BIN)
	$(GO) build -ldflags '-s -w' -o $@ go.etcd.io/etcd/etcdctl/v3

bin/nats-server: go.mod
	@mkdir -p $(BIN)
	$(GO) build -ldflags '-s -w' -o $@ github.com/nats-io/nats-server/v2

# Prometheus without the ways in which it discovers what to scrape, most of which are clouds' clients: a module of its own.
bin/prometheus: tools/gen/prometheus/go.mod
	@mkdir -p $(BIN)
	cd tools/gen/prometheus && $(GO) build -tags remove_all_sd -ldflags '-s -w' -o $(BIN)/prometheus github.com/prometheus/prometheus/cmd/prometheus

# A variant that does not know one kind of record, for the test of mixed versions.
.PHONY: bin/millwright-older
bin/millwright-older:
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS) -X millwright/planner/ledger.withheld=27' -o $@ ./services/cmd/millwright

.PHONY: bin/healthcheck bin/crash bin/composetest bin/nodetest bin/pause
bin/healthcheck: PACKAGE := ./tools/healthcheck
bin/crash: PACKAGE := ./tools/composetest/crash
bin/composetest: PACKAGE := ./tools/composetest
bin/nodetest: PACKAGE := ./tools/nodetest
bin/pause: PACKAGE := ./tools/nodetest/pause
bin/healthcheck bin/crash bin/composetest bin/nodetest bin/pause:
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $@ $(PACKAGE)

# Renders the charts; a module of its own, for Helm's library.
.PHONY: bin/chart
bin/chart:
	@mkdir -p $(BIN)
	@cd tools/chart && $(GO) build -o $(BIN)/chart .

# Helm itself, of the version whose library renders the charts.
.PHONY: bin/helm
bin/helm:
	@mkdir -p $(BIN)
	@cd tools/chart && $(GO) build -ldflags '-s -w' -o $(BIN)/helm helm.sh/helm/v3/cmd/helm

# What a real node runs, and kubectl: a module of its own, with the versions of localcluster's.
.PHONY: bin/kubelet
bin/kubelet:
	@echo "building kubelet, kube-proxy, kubectl, CoreDNS and network plugins (the first time takes some minutes)"
	@mkdir -p $(BIN)/cni
	@cd tools/nodetest/testdata/node && \
		$(GO) build -ldflags '$(KUBE_LDFLAGS)' -o $(BIN)/ k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kube-proxy k8s.io/kubernetes/cmd/kubectl && \
		$(GO) build -ldflags '-s -w' -o $(BIN)/coredns ./coredns && \
		$(GO) build -ldflags '-s -w' -o $(BIN)/cni/ github.com/containernetworking/plugins/plugins/main/ptp \
			github.com/containernetworking/plugins/plugins/main/loopback github.com/containernetworking/plugins/plugins/ipam/host-local

# Enforces NetworkPolicies on the node of cluster-test, and runs nowhere else: a program of its own, whose modules are not ours.
KUBE_ROUTER := v2.1.0
bin/kube-router:
	@echo "building bin/kube-router (the first time takes some minutes)"
	@mkdir -p $(BIN)
	@GOBIN=$(BIN) $(GO) install -ldflags '-s -w' github.com/cloudnativelabs/kube-router/v2/cmd/kube-router@$(KUBE_ROUTER)

# The Kubernetes components: 6 to 10 minutes when nothing is cached, then seconds.
.PHONY: bin/localcluster
bin/localcluster:
	@echo "building bin/localcluster (Kubernetes $(KUBERNETES); the first time takes some minutes)"
	@mkdir -p $(BIN)
	@cd tools/localcluster && $(GO) build -ldflags '$(KUBE_LDFLAGS)' -o $(BIN)/localcluster . & pid=$$!; \
	start=$$SECONDS; while kill -0 $$pid 2>/dev/null; do sleep 1; t=$$((SECONDS-start)); \
		if [ $$((t % 30)) -eq 29 ]; then echo "  still building bin/localcluster, $$t s"; fi; done; wait $$pid

# A server of S3's API, for the tests of the archive in a bucket; a module of its own.
.PHONY: bin/s3server
bin/s3server:
	@mkdir -p $(BIN)
	@cd services/bucket/buckettest/testdata/s3server && $(GO) build -o $(BIN)/s3server .

.PHONY: demo
demo: build ## show the whole of Millwright on this machine, without cloud or Docker, and end
	@$(BIN)/demo run --bin $(BIN) --dir $(STATE)/demo

.PHONY: up
up: build ## start the local stack and leave it running, with a kubeconfig to play with
	@$(BIN)/demo up --bin $(BIN) --dir $(STATE)/up

.PHONY: down
down: ## end what `make up` started
	@if [ -x $(BIN)/demo ]; then $(BIN)/demo down --dir $(STATE)/up; fi

# `make test` ends with install-test, where that can run; INSTALL_TEST=0 and SIM_TEST=0 leave that and the simulated histories to who
# runs them beside something else.
INSTALL_TEST ?= 1
SIM_TEST     ?= 1

.PHONY: test
test: build bin/etcd bin/etcdctl bin/nats-server bin/millwright-older bin/chart bin/s3server ## unit, integration and end-to-end tests, replay of what they recorded, and the way of docs/install.md on a real node
	$(GO) vet ./...
	$(GOTESTSUM) --format standard-quiet --packages "$(if $(filter 1,$(SIM_TEST)),$(SIMULATION)) $(UNIT)" -- -vet=off -p $(AT_ONCE) -timeout 20m
	@$(MAKE) --no-print-directory rules-test
	@$(MAKE) --no-print-directory e2e-only
	@if [ "$(INSTALL_TEST)" = 1 ]; then $(MAKE) --no-print-directory install-test; fi

.PHONY: sim-test
sim-test: ## the simulated histories of the tests, and the mutants that they must find
	$(GOTESTSUM) --format standard-quiet --packages "$(SIMULATION)" -- -vet=off -timeout 40m

# A module of its own, for Prometheus; -count=1, since the files it compares lie outside of the module and are not looked at when a result is cached.
.PHONY: rules-test
rules-test: ## unit tests of the alerts on Prometheus' engine, and every query against docs/metrics.md
	cd tools/gen/rules && $(GO) vet ./... && $(GO) test -count=1 ./...

.PHONY: e2e
e2e: build bin/etcd bin/etcdctl bin/nats-server bin/millwright-older bin/chart bin/s3server e2e-only ## end-to-end tests against the real control plane and the EC2 simulator

.PHONY: e2e-only
e2e-only: export E2E_RIGHTS = $(STATE)/rights
e2e-only:
	@rm -rf $(E2E_RIGHTS)
	$(GOTESTSUM) --rerun-fails=$(RERUN) --rerun-fails-max-failures=5 --rerun-fails-report=$(STATE)/rerun-$@ \
		--format testname --packages ./tools/e2e/... -- -count=1 -parallel $(E2E_AT_ONCE) -timeout 60m
	@$(GO) run ./tools/rights/check $(E2E_RIGHTS)

.PHONY: race
race: bin/s3server ## tests of all packages with goroutines under the race detector; needs gcc
	@CGO_ENABLED=1 $(TOOL) gotestsum --format standard-quiet --packages "$(RACE)" -- -race -short -vet=off -p $(AT_ONCE) -timeout 20m -skip '$(RACE_SKIP)'

.PHONY: soak
soak: build bin/etcd bin/etcdctl bin/nats-server ## new property cases, simulator seeds and end-to-end histories for a while: make soak FOR=1h
	@tools/soak/run.sh $(or $(FOR),1h)

.PHONY: bench
bench: build ## print the figures: log, bus, planners, latency, start-up, memory
	@$(GO) run ./tools/bench

.PHONY: lint
lint: ## formatting, vet, staticcheck, generated files up to date, structure
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'run gofmt on these files'; exit 1; }
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(GO) test ./tools/archtest ./tools/citations ./tools/fenced
	@tools/gen/check.sh $(MAKE)

.PHONY: generate
generate: ## regenerate deep copies, CRDs, manifests, the pages of metrics, AWS permissions and commands, dashboards and protobuf code
	@mkdir -p $(STATE)/tools
	$(TOOL) controller-gen object paths=./api/...
	$(TOOL) controller-gen crd paths=./api/karpenter/v1 paths=./api/karpenter/v1alpha1 paths=./api/karpenteraws/v1 paths=./api/millwright/v1alpha1 output:crd:dir=deploy/crds
	$(TOOL) controller-gen crd paths=./api/karpenter/... paths=./api/karpenteraws/... paths=./api/millwright/... output:crd:dir=deploy/crds/with-v1beta1
	$(TOOL) controller-gen crd paths=./api/autoscaling/... output:crd:dir=deploy/crds/shared
	$(GO) run ./tools/crdgen deploy/crds
	$(GO) run ./tools/crdgen deploy/crds/with-v1beta1
	$(GO) run ./tools/crdgen deploy/crds/shared
	for dir in millwright-crds/files millwright/crds; do \
		rm -f deploy/charts/$$dir/*.yaml && cp deploy/crds/*.yaml deploy/charts/$$dir/ || exit 1; done
	$(GO) run ./services/cmd/metrics >$(STATE)/tools/metrics.md && mv $(STATE)/tools/metrics.md docs/metrics.md
	$(GO) run ./tools/millctl aws policy --format table >$(STATE)/tools/policies.md && mv $(STATE)/tools/policies.md docs/aws-policies.md
	$(GO) test ./tools/millctl -run '^TestReferencePage$$' -count=1 -rewrite
	$(GO) test ./services/cmd/millwright -run '^TestReferencePage$$' -count=1 -rewrite
	$(GO) run ./tools/dashboards deploy/dashboards
	rm -rf deploy/charts/millwright/files && for dir in alerts dashboards nats; do mkdir -p deploy/charts/millwright/files/$$dir || exit 1; done
	cp deploy/nats/*.conf deploy/charts/millwright/files/nats/ && cp deploy/alerts/*.yaml deploy/charts/millwright/files/alerts/ && cp deploy/dashboards/*.json deploy/charts/millwright/files/dashboards/
	cd tools/chart && $(GO) build -o $(STATE)/tools/chart .
	$(STATE)/tools/chart deploy/charts/millwright-crds >deploy/manifests/crds.yaml
	for mode in embedded distributed servers cert-manager; do $(STATE)/tools/chart --values deploy/manifests/values-$$mode.yaml deploy/charts/millwright \
		>deploy/manifests/$$mode.yaml || exit 1; done
	cd proto && mkdir -p $(STATE)/tools && \
		(cd ../tools/gen && $(GO) build -o $(STATE)/tools/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go) && \
		PATH=$(STATE)/tools:$$PATH $(TOOL) buf generate

# They say what EC2's API does not, or not yet; look at the differences before they are committed.
TABLES := services/watcher/ec2/tables
# The price list of partition aws knows these, and those of aws-us-gov; for aws-cn run it with PRICED="cn-north-1 cn-northwest-1" and credentials there.
PRICED ?= af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1 ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-7 \
	ca-central-1 ca-west-1 eu-central-1 eu-central-2 eu-north-1 eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 me-south-1 mx-central-1 \
	sa-east-1 us-east-1 us-east-2 us-gov-east-1 us-gov-west-1 us-west-1 us-west-2
.PHONY: ec2-tables
ec2-tables: ## renew the built-in prices, bandwidths and interface limits; needs credentials of AWS
	@mkdir -p $(STATE)/tables
	$(GO) run ./tools/ec2tables prices $(TABLES)/prices.txt $(PRICED) >$(STATE)/tables/prices.txt
	AWS_REGION=us-east-1 $(GO) run ./tools/ec2tables bandwidth $(TABLES)/bandwidth.txt >$(STATE)/tables/bandwidth.txt
	$(GO) run ./tools/vpclimits >$(STATE)/tables/vpc.txt
	mv $(STATE)/tables/*.txt $(TABLES)/

.PHONY: images
images: build bin/etcd bin/nats-server bin/prometheus bin/healthcheck bin/crash ## build the container images, FROM scratch out of static binaries
	@tools/images/build.sh $(CURDIR)

# Published are the two architectures of EC2. The same sources, version and CAs give the same digest.
ARCHITECTURES := amd64 arm64
.PHONY: image-archive
image-archive: ## the image of Millwright for amd64 and arm64, with its SBOM, as an OCI archive in bin/: no container engine is needed
	@for arch in $(ARCHITECTURES); do \
		mkdir -p $(BIN)/linux-$$arch; \
		for c in millwright:./services/cmd/millwright millctl:./tools/millctl healthcheck:./tools/healthcheck; do \
			echo "building bin/linux-$$arch/$${c%%:*}"; \
			GOOS=linux GOARCH=$$arch $(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/linux-$$arch/$${c%%:*} $${c##*:} || exit 1; \
		done; \
	done
	@$(GO) run ./tools/images archive --version $(VERSION) --out $(BIN)/millwright-image.tar $(foreach arch,$(ARCHITECTURES),$(BIN)/linux-$(arch))

.PHONY: sbom
sbom: build bin/healthcheck ## what the programs of the image were built from, as CycloneDX in bin/millwright.cdx.json
	@$(GO) run ./tools/images sbom --version $(VERSION) $(BIN)/millwright $(BIN)/millctl $(BIN)/healthcheck >$(BIN)/millwright.cdx.json
	@echo "bin/millwright.cdx.json"

.PHONY: compose-test
compose-test: images bin/composetest ## bring up the compose stack, run the demo's workload, crash containers, then lose whole zones of one in three zones
	@$(BIN)/composetest --root $(CURDIR)
	@$(BIN)/composetest --root $(CURDIR) --zones

# Both need root, containerd and some more of Linux, and say "skipped: …" where they do not find it, before anything is built.
NODETEST_NEEDS := build bin/kubelet bin/helm bin/pause bin/etcd bin/nats-server bin/millwright-older

# With POLICIES=1 the node's network enforces NetworkPolicies, those of the chart among them; it needs ipset besides.
POLICIES ?= 0
CLUSTER_TEST = $(if $(filter 1,$(POLICIES)),--policies)

.PHONY: cluster-test
cluster-test: bin/nodetest ## install the chart in pods on a real kubelet; upgrade, restart, kill and evict everything under load
	@missing=$$($(BIN)/nodetest check $(CLUSTER_TEST)) || { echo "skipped: cluster-test, $$missing"; exit 0; }; \
		$(MAKE) --no-print-directory $(NODETEST_NEEDS) $(if $(CLUSTER_TEST),bin/kube-router) && $(BIN)/nodetest upgrades --root $(CURDIR) $(CLUSTER_TEST)

.PHONY: install-test
install-test: bin/nodetest ## the way of docs/install.md on a real kubelet: from helm install to the first node, and removal
	@missing=$$($(BIN)/nodetest check) || { echo "skipped: install-test, $$missing"; exit 0; }; \
		$(MAKE) --no-print-directory $(NODETEST_NEEDS) && $(BIN)/nodetest install --root $(CURDIR)

# The corpus of recorded logs (store/audit/testdata/v<planner version>): run these end-to-end tests and keep what they recorded. Do it once
# a version of the planners is final; recordings of earlier versions stay.
CORPUS_TESTS := TestPodsGetNodesAndEmptyNodesGo|TestDeletingByHand|TestDrainWaitsForPodDisruptionBudgets|TestNoCapacityAtAllThenSome|TestCallsThatFail|TestNodeOverlays|TestAdoptionFromKarpenterAndHandingBack
PLANNER_VERSION = $(shell sed -n 's/^const Version uint32 = //p' planner/doc.go)
CORPUS = $(CURDIR)/store/audit/testdata/v$(PLANNER_VERSION)

.PHONY: corpus
corpus: build ## record the corpus of this version of the planners anew, by end-to-end tests
	@rm -rf $(CORPUS) && mkdir -p $(CORPUS)
	E2E_CORPUS=$(CORPUS) $(GO) test ./tools/e2e -count=1 -timeout 30m -parallel 2 -run '^($(CORPUS_TESTS))$$'
	@du -sh $(CORPUS)

.PHONY: replay
replay: ## replay the corpus of recorded logs
	@ls $(CORPUS)/*.rec >/dev/null 2>&1 || { echo "no logs of planner version $(PLANNER_VERSION) are recorded: make corpus"; exit 1; }
	@$(GO) run ./tools/millctl replay $(foreach f,$(wildcard $(CORPUS)/*.rec),--recording $(f))

.PHONY: sim
sim: ## simulate the whole system under faults: make sim SEEDS=1000 FIRST=1
	GODEBUG=asyncpreemptoff=1 $(GO) run ./tools/simrun --seeds $(or $(SEEDS),500) --first $(or $(FIRST),1)

.PHONY: clean
clean: down ## remove what was built and recorded
	rm -rf $(BIN) $(STATE)
