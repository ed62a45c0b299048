package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "millwright/"

// goPackage is what `go list -json` reports about a package.
type goPackage struct {
	ImportPath string
	Imports    []string
}

// rule bans imports in the packages under a prefix, except in those listed in except.
type rule struct {
	from   string
	except []string
	banned []string
	// allowed lists imports that are fine although their path is banned.
	allowed []string
	reason  string
}

var (
	kubeClients = []string{"k8s.io/client-go", "k8s.io/apiextensions-apiserver", "k8s.io/component-base"}
	adapters    = []string{"github.com/aws/", "github.com/nats-io/", "go.etcd.io/", "github.com/rs/zerolog", "github.com/prometheus/"}
)

var rules = []rule{
	{from: "api", banned: ours("proto", "events", "planner", "store", "services", "tools"), reason: "api is a contract others own; it knows nothing of us"},
	{from: "proto", banned: ours("api", "events", "planner", "store", "services", "tools"), reason: "generated code stands alone"},
	{from: "events", banned: ours("planner", "store", "services", "tools"), reason: "observations know nothing of who reads them"},
	{from: "planner", banned: ours("store", "services", "tools", "events/natsbus", "events/membus", "proto"),
		allowed: ours("proto/checkpoint"), reason: "planners see a Snapshot, never where it came from; how a World is laid out in a checkpoint is its own affair"},
	{from: "planner", except: []string{"planner/plannertest/script"}, banned: append([]string{"context", "math/rand", "math/rand/v2", "os", "net", "net/http", "log", "sync", "github.com/google/uuid"}, append(kubeClients, adapters...)...),
		// Sorted views are computed once and then shared by concurrent readers of one Snapshot.
		allowed: []string{"sync/atomic"}, reason: "planners are pure: no I/O, clock, randomness, goroutines or logs"},
	{banned: ours("planner/plannertest/script"), reason: "scripts, which read files, are for tests alone"},
	{from: "store", except: []string{"store/audit"}, banned: ours("api", "events", "planner", "services", "tools"), reason: "the log knows bytes and sequences only"},
	{from: "store/audit", banned: append(ours("services", "tools", "events/natsbus", "store/etcdlog"), adapters...), reason: "replay works on interfaces, over any log and stream"},
	{from: "store/audit/plan", banned: append([]string{"os", "path/filepath", "net", "net/http", "math/rand", "math/rand/v2", "log", "sync"}, ours("store")...),
		reason: "what would be done follows from manifests and a Snapshot; who asks opens files and knows the log"},
	{from: "services", banned: ours("tools"), reason: "tools are built on services, not the other way"},
	{from: "services/watcher", banned: ours("services/provisioner", "services/disruptor", "services/terminator", "services/lifecycle"), reason: "services meet in bus and log only"},
	{from: "services/provisioner", banned: ours("services/watcher", "services/disruptor", "services/terminator", "services/lifecycle"), reason: "services meet in bus and log only"},
	{from: "services/disruptor", banned: ours("services/watcher", "services/provisioner", "services/terminator", "services/lifecycle"), reason: "services meet in bus and log only"},
	{from: "services/terminator", banned: ours("services/watcher", "services/provisioner", "services/disruptor", "services/lifecycle"), reason: "services meet in bus and log only"},
	{from: "services/lifecycle", banned: ours("services/watcher", "services/provisioner", "services/disruptor", "services/terminator"), reason: "services meet in bus and log only"},
	{from: "services/console", banned: ours("services/watcher", "services/provisioner", "services/disruptor", "services/terminator", "services/lifecycle"), reason: "the console reads bus and log only"},
	{from: "services/export", banned: append(ours("services/watcher", "services/provisioner", "services/disruptor", "services/terminator", "services/lifecycle", "services/console"), kubeClients...),
		reason: "the export reads the log only"},
	{from: "services", except: []string{"services/export", "services/cmd"}, banned: ours("services/export"), reason: "nothing depends on what is handed to others"},
	{from: "services", except: []string{"services/console", "services/cmd"}, banned: ours("services/console"), reason: "nothing depends on what people look at"},
	{from: "services/internal/host/fold", banned: ours("services/internal/host/step", "services/internal/process"), reason: "what is folded does not depend on who leads or steps"},
	{from: lifecyclePart + "effects", banned: ours("services/lifecycle"), reason: "effects are started without knowing what they do"},
	{from: lifecyclePart + "recent", banned: ours("services/lifecycle"), reason: "what was seen lately depends on nothing else"},
	{from: lifecyclePart + "garbage", banned: ours("services/lifecycle"), allowed: lifecycleParts("effects", "recent"),
		reason: "what has come apart is found without knowing the moves of claims"},
	{from: lifecyclePart + "status", banned: ours("services/lifecycle"), allowed: lifecycleParts("effects", "recent", "launch", "nodeclass"),
		reason: "what people read is off the path of moves and of collecting"},
	{from: lifecyclePart + "claims", banned: ours("services/lifecycle"), allowed: lifecycleParts("effects", "recent", "launch", "nodeclass"),
		reason: "moves follow from facts, whoever finds them"},
	{from: "services/webhook", banned: ours("services/watcher", "services/provisioner", "services/disruptor", "services/terminator", "services/lifecycle",
		"events", "planner", "store"), reason: "the webhook needs the API server alone"},
	{from: "planner", except: []string{"planner/provision", "planner/disrupt"}, banned: ours("planner/provision", "planner/disrupt"),
		reason: "planners plan from what the other packages say, not the other way"},
	{from: "planner/nodepool", banned: ours("planner"), allowed: ours("planner/condition", "planner/requirement", "planner/resource"),
		reason: "the rules of a NodePool follow from the object, for whoever asks"},
	{from: "planner/drift", banned: ours("planner"), allowed: ours("planner/catalog", "planner/condition", "planner/ledger", "planner/nodepool", "planner/requirement"),
		reason: "drift follows from recorded facts, never from a Snapshot"},
	{from: "planner", except: []string{"planner/drift"}, banned: ours("planner/drift"), reason: "planners see the condition Drifted, whoever found it out"},
	{from: "services", except: []string{"services/lifecycle/status"}, banned: ours("planner/drift"), reason: "one service judges drift"},
	{from: "planner/provision", banned: ours("planner/disrupt", "planner/drain"), reason: "disruption asks provisioning what would become of pods, not the other way"},
	{from: "planner/disrupt/internal/policy", banned: ours("planner/disrupt", "planner/provision"), reason: "policies judge what the pass of disruption found, and search for nothing"},
	{from: "planner/disrupt/internal/packing", banned: ours("planner/disrupt", "planner/provision"), reason: "the model knows room and sizes; whether it is right is asked elsewhere"},
	{from: provisionLayer + "volume", banned: ours("planner/provision"), reason: "what volumes demand follows from the objects alone"},
	{from: provisionLayer + "overlay", banned: ours("planner/provision"), reason: "NodeOverlays change catalogues and know nothing of pods"},
	{from: provisionLayer + "demand", banned: ours("planner/provision"), allowed: provisionLayers("volume"), reason: "what pods demand depends on no NodePool and no search"},
	{from: provisionLayer + "offer", banned: ours("planner/provision"), allowed: provisionLayers("demand", "overlay"), reason: "what NodePools offer depends on no place and no search"},
	{from: provisionLayer + "place", banned: ours("planner/provision"), allowed: provisionLayers("offer", "demand", "volume"), reason: "a place answers one pod; the order of pods is the search's business"},
	{from: provisionLayer + "solve", banned: ours("planner/provision"), allowed: provisionLayers("place", "offer", "demand", "volume", "overlay"),
		reason: "the search knows nothing of those who make its plan cheaper or explain it"},
	{from: provisionLayer + "pack", banned: ours("planner/provision"), allowed: provisionLayers("solve", "place", "offer", "demand", "volume"), reason: "packing improves a plan of solve"},
	{from: provisionLayer + "refusal", banned: ours("planner/provision"), allowed: provisionLayers("solve", "place", "offer", "demand", "volume"), reason: "refusals explain a plan of solve"},
	{from: "", except: []string{"events/natsbus"}, banned: []string{"github.com/nats-io/"}, reason: "only natsbus speaks NATS"},
	{from: "", except: []string{"store/etcdlog", "services/cmd"}, banned: []string{"go.etcd.io/etcd"}, reason: "only etcdlog speaks to etcd; the command hands it a client"},
	{from: "", except: []string{"services", "tools"}, banned: append([]string{"github.com/aws/"}, kubeClients...), reason: "only services and tools speak to Kubernetes and AWS"},
	{from: "", banned: []string{"sigs.k8s.io/controller-runtime", "github.com/samber/lo", "sigs.k8s.io/karpenter", "github.com/aws/karpenter"}, reason: "not among this project's dependencies"},
}

// provisionLayer is the prefix of the packages that provision is made of.
const provisionLayer = "planner/provision/internal/"

func provisionLayers(names ...string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = module + provisionLayer + n
	}
	return out
}

// lifecyclePart is the prefix of the packages that lifecycle is made of.
const lifecyclePart = "services/lifecycle/"

func lifecycleParts(names ...string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = module + lifecyclePart + n
	}
	return out
}

func ours(paths ...string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = module + p
	}
	return out
}

func under(path, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

func (r rule) covers(pkg string) bool {
	if r.from != "" && !under(pkg, module+r.from) {
		return false
	}
	for _, e := range r.except {
		if under(pkg, module+e) {
			return false
		}
	}
	return true
}

func TestImportsPointDown(t *testing.T) {
	seen := 0
	for _, p := range listPackages(t) {
		seen++
		for _, r := range append(simulatorRules(), rules...) {
			if !r.covers(p.ImportPath) {
				continue
			}
			for _, imp := range p.Imports {
				for _, b := range r.banned {
					if under(imp, b) && !slices.Contains(r.allowed, imp) {
						t.Errorf("%s imports %s: %s", p.ImportPath, imp, r.reason)
					}
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("looked at %d packages only; is the list complete?", seen)
	}
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "millwright/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v\n%s", err, stderr.String())
	}
	var pkgs []goPackage
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("read package list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}
