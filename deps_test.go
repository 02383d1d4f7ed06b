package pawl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawl-dev/pawl"

// A layer is one folder of the product and the packages that it may import besides the
// standard library. An internal/ folder belongs to the layer above it.
type layer struct {
	kind   kind
	rule   string   // shown when the rule is broken
	layers []string // other layers; a name that ends in / means all layers below it
	except []string // of layers: those that it must not import after all
	libs   []string // libraries, by prefix; "any" for all but Kubernetes
	std    []string // standard packages that core layers must not use, but this one may
}

type kind int

const (
	core     kind = iota // runs in a unit test with no fake
	edge                 // uses an external technology
	frontend             // prints for people
	suite                // shared by tests; product code must not import it
)

// The imports of core layers; each list contains the one before.
var (
	baseLayers    = []string{"fault", "outcome"}
	libraryLayers = slices.Concat(baseLayers, []string{"lock", "chain", "control", "control/request", "rollout"})
	engineLayers  = slices.Concat(libraryLayers, []string{"workflow", "workflow/runtype", "workflow/runstore", "workflow/limit"})
	machineLayers = slices.Concat(engineLayers, []string{"machine"})
	coreLayers    = slices.Concat(machineLayers, []string{"workflow/", "machine/", "schedule", "bulk", "notification", "account", "secretfile", "cluster", "cluster/", "fdb", "fdb/"})
	kubeLayers    = slices.Concat(coreLayers, []string{"kube/api", "kube/condition", "kube/lease", "kube/controller", "kube/workload"})
	stageLayers   = slices.Concat(coreLayers, []string{"view", "server/route"})
	sqlLayers     = slices.Concat(coreLayers, []string{"store/sql/db", "store/sql/secrets"})
	runLayers     = slices.Concat(coreLayers, []string{"store/sql/db", "store/sql/codec"})
)

// The libraries for files that people write (YAML, JSON Schema and its messages, CEL), and
// the list for any library.
var (
	fileLibs = []string{"go.yaml.in/yaml/", "github.com/santhosh-tekuri/jsonschema/", "golang.org/x/text/", "cel.dev/cel-go", "github.com/google/cel-go"}
	anyLib   = []string{"any"}
	kubeLibs = []string{"any", "k8s.io/", "sigs.k8s.io/"}
	apiLibs  = []string{"any", "k8s.io/api/", "k8s.io/apimachinery/"}
)

// The rules, as the test prints them.
const (
	baseRule      = "fault and outcome import the standard library only"
	secretRule    = "secretfile imports fault and outcome only"
	libraryRule   = "lock, chain, control and rollout import fault and outcome only"
	runRule       = "runtype imports fault, runstore adds runtype, and neither knows the engine; only their tests start one"
	engineRule    = "workflow and machine import the layers before them, and no YAML, SQL, HTTP or Kubernetes"
	fileRule      = "CEL, JSON Schema and YAML stay in celenv, flowfile, machinefile and action, which import the engines and each other in this order: celenv, flowfile, action, machinefile"
	scheduleRule  = "schedule imports workflow and lower layers, and the parser of cron"
	bulkRule      = "bulk imports workflow and lower layers"
	webhookRule   = "notification imports machine and lower layers, egress, celenv and HTTP"
	clusterRule   = "cluster imports machine and lower layers, and may compare versions by semver"
	databaseRule  = "fdb imports fault, outcome and lock only, and fdb/sim fault, outcome and fdb; its world adds fdb/sim, and its programs the world and HTTP"
	edgeRule      = "layers at the edge import core, and neither each other nor Kubernetes; cmd joins them"
	serverRule    = "below server, route imports core and view; a stage or a resource imports route, and what it stands on: runs, then clusters, then events and flows; server joins them"
	sqlRule       = "below store/sql, a store imports core, db, codec and secrets, and no other store; store/sql joins them"
	kubeRule      = "kube imports core, kube/runstore imports core and kube/api, an operator imports core and kube; controllers pass requests to runs as kube/runstore reads them; sibling operators never import each other"
	runsRule      = "below kube/runstore, client imports core and kube/api, requests imports these and client, and format both; runstore joins them"
	gateRule      = "gate imports CEL and rollout, and neither HTTP nor Kubernetes"
	outsideRule   = "outside imports core and clients: what it asks knows no Rollout object"
	storageRule   = "the shared-storage operator imports core, the kinds and its ports; its adapters import the ports, and only kube/ a client of Kubernetes"
	fdbRule       = "the FoundationDB operator imports core, the kinds and its ports, and only its kube/ a client of Kubernetes"
	compatRule    = "compat keeps the packages of the library that it replaces: they import the engines, flowfile, kube/runstore, and each other in the library's order"
	frontendRule  = "view imports core, client core and view, the console nothing, and examples import core, view and a store"
	suiteRule     = "a conformance suite imports the layer that it tests, and what that layer may import"
	newLayerRule  = "put its code into a layer, or add the layer and its rule to deps_test.go"
	cmdRule       = "nothing imports cmd"
	pawlRule      = "cmd/pawl imports all layers, but simulated databases through operator/foundationdb/sandbox only"
	sandboxRule   = "sandbox is the FoundationDB operator with its simulator behind an API of its own: no client of Kubernetes"
	suiteOnlyRule = "a conformance suite is for tests only"
	httpRule      = "the core imports no HTTP"
	reachRule     = "no core layer imports SQL or Kubernetes"
)

// The import table: the layers of the product. A folder that is not listed fails the test;
// a listed folder need not exist. Three kinds of folders need no entry: internal/ belongs
// to the layer above; a folder like storetest, directly below its layer, is a conformance
// suite; examples/ and kube/api/ are one layer each.
var table = map[string]layer{
	"fault":           {rule: baseRule},
	"outcome":         {rule: baseRule, layers: []string{"fault"}},
	"lock":            {rule: libraryRule, layers: baseLayers},
	"chain":           {rule: libraryRule, layers: baseLayers},
	"rollout":         {rule: libraryRule, layers: baseLayers},
	"secretfile":      {rule: secretRule, layers: baseLayers},
	"control/request": {rule: baseRule},
	"control":         {rule: libraryRule, layers: baseLayers},

	"workflow/runtype":            {rule: runRule, layers: baseLayers},
	"workflow/limit":              {rule: runRule, layers: slices.Concat(baseLayers, []string{"workflow/runtype"})},
	"workflow/runstore":           {rule: runRule, layers: slices.Concat(baseLayers, []string{"workflow/runtype"})},
	"workflow/runstore/storetest": {kind: suite, rule: runRule, layers: engineLayers, libs: []string{"github.com/google/go-cmp/", "pgregory.net/rapid", "go.uber.org/goleak"}},
	"workflow":                    {rule: engineRule, layers: slices.Concat(libraryLayers, []string{"workflow/runtype", "workflow/runstore", "workflow/limit"}), libs: []string{"golang.org/x/sys/"}},
	"workflow/celenv":             {rule: fileRule, libs: fileLibs},
	"workflow/action/egress":      {rule: fileRule, layers: baseLayers, std: []string{"net/http"}},
	"workflow/flowfile":           {rule: fileRule, layers: slices.Concat(engineLayers, []string{"workflow/celenv", "workflow/flowfile/plain"}), libs: fileLibs},
	"workflow/flowfile/plain":     {rule: fileRule, libs: fileLibs},
	"workflow/flowfile/classic":   {rule: fileRule, layers: slices.Concat(engineLayers, []string{"workflow/flowfile"}), libs: slices.Concat(fileLibs, []string{"github.com/go-logr/logr"})},
	"workflow/workflowtest":       {rule: engineRule, layers: engineLayers},
	"workflow/flowfile/testfile":  {rule: fileRule, layers: slices.Concat(engineLayers, []string{"workflow/flowfile", "workflow/workflowtest"}), libs: fileLibs},
	"workflow/action":             {rule: fileRule, layers: slices.Concat(engineLayers, []string{"workflow/action/", "workflow/celenv", "workflow/flowfile"}), libs: slices.Concat(fileLibs, []string{"golang.org/x/sys/"}), std: []string{"net/http"}},
	"machine":                     {rule: engineRule, layers: engineLayers},
	"machine/driver":              {rule: engineRule, layers: slices.Concat(baseLayers, []string{"control", "workflow", "workflow/runtype", "workflow/runstore", "machine"})},
	"machine/machinefile":         {rule: fileRule, layers: slices.Concat(machineLayers, []string{"workflow/celenv", "workflow/flowfile", "workflow/flowfile/plain", "workflow/action"}), libs: fileLibs},
	"schedule":                    {rule: scheduleRule, layers: engineLayers, libs: []string{"github.com/robfig/cron/"}},
	"bulk":                        {rule: bulkRule, layers: engineLayers},
	"notification":                {rule: webhookRule, layers: slices.Concat(machineLayers, []string{"workflow/action/egress", "workflow/celenv"}), libs: []string{"cel.dev/cel-go"}, std: []string{"net/http"}},
	"account":                     {rule: clusterRule, layers: libraryLayers},
	"cluster/cloudsign":           {rule: "cloudsign signs texts, and imports the standard library only"},
	"cluster":                     {rule: clusterRule, layers: machineLayers, libs: []string{"golang.org/x/mod/semver"}},
	"cluster/settings":            {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster"})},
	"cluster/bootstrap":           {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster"})},
	"cluster/memory":              {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster"})},
	"cluster/periodic":            {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster"})},
	"cluster/records":             {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster"})},
	"cluster/providers":           {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster"})},
	"cluster/notices":             {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster"})},
	"cluster/observe":             {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster", "cluster/providers"})},
	"cluster/capacity":            {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster"})},
	"cluster/upgrade":             {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster", "cluster/settings"})},
	"cluster/validate":            {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster"})},
	"cluster/heartbeat":           {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster", "cluster/bootstrap", "cluster/records", "cluster/settings", "cluster/upgrade"})},
	"cluster/resources":           {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster", "cluster/bootstrap", "cluster/heartbeat", "cluster/providers", "cluster/records", "cluster/settings"})},
	"cluster/flows":               {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster", "cluster/capacity", "cluster/heartbeat", "cluster/providers", "cluster/resources", "cluster/settings", "cluster/upgrade"})},
	"cluster/controller":          {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster", "cluster/settings"})},
	"cluster/sync":                {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster", "cluster/notices", "cluster/observe", "cluster/periodic", "cluster/providers", "cluster/settings"})},
	"cluster/gc":                  {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster", "cluster/notices", "cluster/periodic", "cluster/providers", "cluster/settings"})},
	"cluster/api":                 {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster", "cluster/capacity", "cluster/notices", "cluster/providers", "cluster/resources", "cluster/settings", "cluster/upgrade", "cluster/validate"})},
	"cluster/service":             {rule: clusterRule, layers: slices.Concat(machineLayers, []string{"cluster", "cluster/"})},
	// The environment of tests that need a whole service: it has a simulated cloud.
	"cluster/service/servicetest": {kind: suite, rule: suiteRule, layers: slices.Concat(machineLayers, []string{"cluster", "cluster/", "provider/sim"}), libs: []string{"github.com/google/go-cmp/", "pgregory.net/rapid"}},
	"fdb":                         {rule: databaseRule, layers: slices.Concat(baseLayers, []string{"lock"})},
	"fdb/sim":                     {rule: databaseRule, layers: slices.Concat(baseLayers, []string{"fdb"})},
	"fdb/sim/world":               {rule: databaseRule, layers: slices.Concat(baseLayers, []string{"fdb", "fdb/sim"})},
	"fdb/sim/program":             {rule: databaseRule, layers: slices.Concat(baseLayers, []string{"fdb", "fdb/sim", "fdb/sim/world"}), std: []string{"net/http"}},

	"store/sql":                          {kind: edge, rule: sqlRule, layers: slices.Concat(coreLayers, []string{"store/sql/"}), libs: anyLib},
	"store/sql/db":                       {kind: edge, rule: sqlRule, layers: coreLayers},
	"store/sql/db/postgres":              {kind: edge, rule: sqlRule, layers: slices.Concat(coreLayers, []string{"store/sql/db"}), libs: anyLib},
	"store/sql/db/sqlite":                {kind: edge, rule: sqlRule, layers: slices.Concat(coreLayers, []string{"store/sql/db"}), libs: anyLib},
	"store/sql/runs":                     {kind: edge, rule: sqlRule, layers: runLayers},
	"store/sql/runs/sqlite":              {kind: edge, rule: sqlRule, layers: slices.Concat(runLayers, []string{"store/sql/db/sqlite", "store/sql/runs"}), libs: anyLib},
	"store/sql/runs/postgres":            {kind: edge, rule: sqlRule, layers: slices.Concat(runLayers, []string{"store/sql/db/postgres", "store/sql/runs"}), libs: anyLib},
	"store/sql/raw":                      {kind: edge, rule: sqlRule, layers: slices.Concat(coreLayers, []string{"store/sql/db", "store/sql/db/"}), libs: anyLib},
	"store/sql/admin":                    {kind: edge, rule: "admin maintains all that a database holds, so it knows the other stores", layers: slices.Concat(sqlLayers, []string{"store/sql/db/sqlite", "store/sql/runs", "store/sql/runs/sqlite", "store/sql/objects", "store/sql/clusters"}), libs: anyLib},
	"store/sql/codec":                    {kind: edge, rule: sqlRule, layers: coreLayers},
	"store/sql/secrets":                  {kind: edge, rule: sqlRule, layers: coreLayers},
	"store/sql/objects":                  {kind: edge, rule: sqlRule, layers: sqlLayers},
	"store/sql/locks":                    {kind: edge, rule: sqlRule, layers: sqlLayers},
	"store/sql/idempotency":              {kind: edge, rule: sqlRule, layers: sqlLayers},
	"store/sql/accounts":                 {kind: edge, rule: sqlRule, layers: sqlLayers, libs: anyLib},
	"store/sql/clusters":                 {kind: edge, rule: sqlRule, layers: sqlLayers, libs: anyLib},
	"provider/sim":                       {kind: edge, rule: edgeRule, layers: coreLayers, libs: anyLib},
	"provider/local":                     {kind: edge, rule: edgeRule, layers: slices.Concat(coreLayers, []string{"provider/local/"}), libs: anyLib}, // and its node program
	"provider/local/node":                {kind: edge, rule: edgeRule, layers: slices.Concat(coreLayers, []string{"provider/local"}), libs: anyLib},
	"provider/cloudstack":                {kind: edge, rule: edgeRule, layers: coreLayers, libs: anyLib},
	"provider/cloudstack/cloudstacktest": {kind: suite, rule: "cloudstacktest is the HTTP API of sim for tests of the client, and imports core and sim", layers: slices.Concat(coreLayers, []string{"provider/sim"}), libs: anyLib},
	"telemetry":                          {kind: edge, rule: edgeRule, layers: coreLayers, libs: anyLib},
	"server":                             {kind: edge, rule: edgeRule, layers: slices.Concat(coreLayers, []string{"server/", "view", "view/fdbview", "console"}), libs: anyLib},
	"server/route":                       {kind: edge, rule: serverRule, layers: slices.Concat(coreLayers, []string{"view"}), libs: anyLib},
	"server/admission":                   {kind: edge, rule: serverRule, layers: stageLayers, libs: anyLib},
	"server/auth":                        {kind: edge, rule: serverRule, layers: stageLayers, libs: anyLib},
	"server/docs":                        {kind: edge, rule: serverRule, layers: stageLayers, libs: anyLib},
	"server/idempotency":                 {kind: edge, rule: serverRule, layers: slices.Concat(stageLayers, []string{"server/admission"}), libs: anyLib},
	"server/objects":                     {kind: edge, rule: serverRule, layers: stageLayers, libs: anyLib},
	"server/rollouts":                    {kind: edge, rule: serverRule, layers: stageLayers, libs: anyLib},
	"server/foundationdb":                {kind: edge, rule: serverRule, layers: slices.Concat(stageLayers, []string{"view/fdbview"}), libs: anyLib},
	"server/schedules":                   {kind: edge, rule: serverRule, layers: stageLayers, libs: anyLib},
	"server/workers":                     {kind: edge, rule: serverRule, layers: stageLayers, libs: anyLib},
	"server/accounts":                    {kind: edge, rule: serverRule, layers: slices.Concat(stageLayers, []string{"server/auth"}), libs: anyLib},
	"server/runs":                        {kind: edge, rule: serverRule, layers: slices.Concat(stageLayers, []string{"server/auth"}), libs: anyLib},
	"server/clusters":                    {kind: edge, rule: serverRule, layers: slices.Concat(stageLayers, []string{"server/auth", "server/admission", "server/runs"}), libs: anyLib},
	"server/events":                      {kind: edge, rule: serverRule, layers: slices.Concat(stageLayers, []string{"server/auth", "server/runs", "server/clusters"}), libs: anyLib},
	"server/flows":                       {kind: edge, rule: serverRule, layers: slices.Concat(stageLayers, []string{"server/clusters"}), libs: anyLib},
	"server/cloudstack":                  {kind: edge, rule: serverRule, layers: slices.Concat(stageLayers, []string{"server/auth", "server/admission"}), libs: anyLib},

	"kube/api":               {kind: edge, rule: "kube/api imports only k8s.io/api and k8s.io/apimachinery", libs: []string{"k8s.io/api/", "k8s.io/apimachinery/"}},
	"kube/condition":         {kind: edge, rule: "kube/condition imports core and the types of Kubernetes, no client", layers: libraryLayers, libs: apiLibs},
	"kube/lease":             {kind: edge, rule: kubeRule, layers: kubeLayers, libs: kubeLibs},
	"kube/controller":        {kind: edge, rule: kubeRule, layers: slices.Concat(kubeLayers, []string{"kube/runstore", "kube/runstore/requests"}), libs: kubeLibs},
	"kube/workload":          {kind: edge, rule: kubeRule, layers: kubeLayers, libs: kubeLibs},
	"kube/runstore":          {kind: edge, rule: kubeRule, layers: slices.Concat(coreLayers, []string{"kube/api", "kube/runstore/", "workflow/limit"}), libs: kubeLibs},
	"kube/runstore/format":   {kind: edge, rule: runsRule, layers: slices.Concat(coreLayers, []string{"kube/api", "kube/runstore/client", "kube/runstore/requests"}), libs: kubeLibs},
	"kube/runstore/client":   {kind: edge, rule: runsRule, layers: slices.Concat(coreLayers, []string{"kube/api"}), libs: kubeLibs},
	"kube/runstore/requests": {kind: edge, rule: runsRule, layers: slices.Concat(coreLayers, []string{"kube/api", "kube/runstore/client"}), libs: kubeLibs},

	// The operator itself uses the types of Kubernetes but no client: it also runs without a
	// cluster.
	"operator/sharedstorage":                     {kind: edge, rule: storageRule, layers: slices.Concat(coreLayers, []string{"kube/api", "kube/condition", "operator/sharedstorage/cache", "operator/sharedstorage/declared", "operator/sharedstorage/port"}), libs: apiLibs},
	"operator/sharedstorage/backups":             {kind: edge, rule: storageRule, layers: slices.Concat(coreLayers, []string{"kube/api", "kube/condition", "operator/sharedstorage", "operator/sharedstorage/port"}), libs: apiLibs},
	"operator/sharedstorage/cache":               {kind: edge, rule: storageRule},
	"operator/sharedstorage/declared":            {kind: edge, rule: storageRule, layers: slices.Concat(libraryLayers, []string{"kube/api", "kube/condition", "operator/sharedstorage/cache", "operator/sharedstorage/port"}), libs: apiLibs},
	"operator/sharedstorage/port":                {kind: edge, rule: storageRule, layers: libraryLayers},
	"operator/sharedstorage/sim":                 {kind: edge, rule: storageRule, layers: slices.Concat(coreLayers, []string{"operator/sharedstorage/port"})},
	"operator/sharedstorage/postgres":            {kind: edge, rule: storageRule, layers: slices.Concat(coreLayers, []string{"operator/sharedstorage/port", "operator/sharedstorage/postgres/"}), libs: anyLib},
	"operator/sharedstorage/pooler":              {kind: edge, rule: storageRule, layers: slices.Concat(coreLayers, []string{"operator/sharedstorage/port", "operator/sharedstorage/postgres", "operator/sharedstorage/postgres/host", "operator/sharedstorage/postgres/transport"}), libs: anyLib},
	"operator/sharedstorage/postgres/host":       {kind: edge, rule: storageRule, layers: slices.Concat(libraryLayers, []string{"operator/sharedstorage/port"}), libs: []string{"golang.org/x/sys/"}},
	"operator/sharedstorage/postgres/lease":      {kind: edge, rule: storageRule, layers: slices.Concat(libraryLayers, []string{"operator/sharedstorage/port", "operator/sharedstorage/postgres/failsafe", "operator/sharedstorage/postgres/host"})},
	"operator/sharedstorage/postgres/enginelog":  {kind: edge, rule: storageRule},
	"operator/sharedstorage/postgres/transport":  {kind: edge, rule: storageRule, layers: slices.Concat(libraryLayers, []string{"operator/sharedstorage/port"})},
	"operator/sharedstorage/postgres/pgbackrest": {kind: edge, rule: storageRule, layers: slices.Concat(libraryLayers, []string{"operator/sharedstorage/port"})},
	"operator/sharedstorage/postgres/metrics":    {kind: edge, rule: storageRule, layers: slices.Concat(libraryLayers, []string{"operator/sharedstorage/postgres/pgbackrest"}), libs: anyLib},
	"operator/sharedstorage/postgres/failsafe":   {kind: edge, rule: storageRule, layers: libraryLayers},
	"operator/sharedstorage/local":               {kind: edge, rule: storageRule, layers: slices.Concat(coreLayers, []string{"kube/api", "operator/sharedstorage", "operator/sharedstorage/backups", "operator/sharedstorage/declared", "operator/sharedstorage/pooler", "operator/sharedstorage/port", "operator/sharedstorage/postgres", "operator/sharedstorage/postgres/host", "operator/sharedstorage/postgres/lease", "operator/sharedstorage/postgres/transport"}), libs: apiLibs},
	"operator/sharedstorage/kube":                {kind: edge, rule: storageRule, layers: slices.Concat(kubeLayers, []string{"kube/runstore", "kube/runstore/requests", "operator/sharedstorage", "operator/sharedstorage/backups", "operator/sharedstorage/declared", "operator/sharedstorage/pooler", "operator/sharedstorage/port", "operator/sharedstorage/postgres", "operator/sharedstorage/postgres/failsafe", "operator/sharedstorage/postgres/host", "operator/sharedstorage/postgres/lease", "operator/sharedstorage/postgres/transport"}), libs: kubeLibs},

	"operator/application":                {kind: edge, rule: kubeRule, layers: kubeLayers, libs: kubeLibs},
	"operator/rollout":                    {kind: edge, rule: kubeRule, layers: slices.Concat(kubeLayers, []string{"operator/rollout/gate", "operator/rollout/outside", "operator/rollout/pool"}), libs: kubeLibs},
	"operator/rollout/gate":               {rule: gateRule, layers: slices.Concat(baseLayers, []string{"rollout", "workflow/celenv"}), libs: fileLibs},
	"operator/rollout/pool":               {kind: edge, rule: kubeRule, libs: apiLibs},
	"operator/rollout/outside":            {kind: edge, rule: outsideRule, layers: coreLayers, libs: kubeLibs},
	"operator/foundationdb":               {kind: edge, rule: fdbRule, layers: slices.Concat(coreLayers, []string{"kube/api", "kube/condition"}), libs: apiLibs},
	"operator/foundationdb/port":          {kind: edge, rule: fdbRule, layers: slices.Concat(coreLayers, []string{"kube/api"}), libs: apiLibs},
	"operator/foundationdb/port/porttest": {kind: suite, rule: fdbRule, layers: slices.Concat(coreLayers, []string{"kube/api", "operator/foundationdb/port"}), libs: apiLibs},
	"operator/foundationdb/sim":           {kind: edge, rule: fdbRule, layers: slices.Concat(coreLayers, []string{"kube/api", "operator/foundationdb", "operator/foundationdb/port"}), libs: apiLibs},
	"operator/foundationdb/tool":          {kind: edge, rule: fdbRule, layers: slices.Concat(coreLayers, []string{"operator/foundationdb/port"}), libs: anyLib},
	"operator/foundationdb/repair":        {kind: edge, rule: fdbRule, layers: slices.Concat(coreLayers, []string{"kube/api", "operator/foundationdb"}), libs: apiLibs},
	"operator/foundationdb/clusters":      {kind: edge, rule: fdbRule, layers: slices.Concat(coreLayers, []string{"kube/api", "kube/condition", "operator/foundationdb", "operator/foundationdb/port", "operator/foundationdb/repair"}), libs: apiLibs},
	"operator/foundationdb/backups":       {kind: edge, rule: fdbRule, layers: slices.Concat(coreLayers, []string{"kube/api", "kube/condition", "operator/foundationdb", "operator/foundationdb/port"}), libs: apiLibs},
	"operator/foundationdb/restores":      {kind: edge, rule: fdbRule, layers: slices.Concat(coreLayers, []string{"kube/api", "kube/condition", "operator/foundationdb", "operator/foundationdb/port"}), libs: apiLibs},
	// The only product code that imports the simulator: what pawl dev --fdb plays.
	"operator/foundationdb/sandbox": {kind: edge, rule: sandboxRule, layers: slices.Concat(coreLayers, []string{"kube/api", "operator/foundationdb", "operator/foundationdb/"}), except: []string{"operator/foundationdb/kube", "operator/foundationdb/tool"}, libs: slices.Concat(apiLibs, []string{"k8s.io/streaming/"})},
	"operator/foundationdb/kube":    {kind: edge, rule: fdbRule, layers: slices.Concat(kubeLayers, []string{"operator/foundationdb", "operator/foundationdb/"}), libs: kubeLibs},

	// The same packages as the library that it replaces: only the import prefix differs.
	"compat":                    {kind: edge, rule: compatRule, layers: baseLayers}, // internal/
	"compat/define":             {kind: edge, rule: compatRule},
	"compat/statemachine":       {kind: edge, rule: compatRule, layers: slices.Concat(machineLayers, []string{"compat"}), libs: kubeLibs},
	"compat/implement":          {kind: edge, rule: compatRule, layers: []string{"compat/statemachine"}, libs: apiLibs},
	"compat/implement/wfengine": {kind: edge, rule: compatRule, layers: []string{"compat/wfengine"}},
	"compat/utils":              {kind: edge, rule: compatRule},
	"compat/utils/k8sutil":      {kind: edge, rule: compatRule, libs: kubeLibs},
	"compat/wfengine":           {kind: edge, rule: compatRule, layers: slices.Concat(machineLayers, []string{"workflow/flowfile", "workflow/flowfile/classic", "kube/runstore", "compat", "compat/"}), libs: kubeLibs},

	"client":           {kind: frontend, rule: frontendRule, layers: slices.Concat(coreLayers, []string{"view", "view/fdbview"}), libs: anyLib},
	"view":             {kind: frontend, rule: frontendRule, layers: coreLayers, libs: anyLib},
	"view/fdbview":     {kind: frontend, rule: frontendRule, layers: slices.Concat(coreLayers, []string{"view"}), libs: anyLib},
	"console":          {kind: frontend, rule: frontendRule},
	"examples":         {kind: frontend, rule: frontendRule, layers: slices.Concat(coreLayers, []string{"store/sql", "view"}), libs: anyLib},
	"examples/classic": {kind: frontend, rule: "an operator of the classic style imports compat, and nothing else of Pawl", layers: []string{"compat/"}, libs: kubeLibs},
	"docs/guide":       {kind: frontend, rule: "the guide holds no code but the tests that keep it true"},
	"cmd/fdbsim":       {kind: frontend, rule: "fdbsim is the programs of fdb/sim/program", layers: []string{"fdb/sim/program"}},
	"cmd/pawl":         {kind: frontend, rule: pawlRule, layers: []string{"*"}, except: []string{"fdb/sim", "fdb/sim/", "operator/foundationdb/sim"}, libs: kubeLibs},
}

// Packages that no core layer may import, directly or indirectly.
var (
	databases  = []string{"database/sql", "github.com/jackc/", "modernc.org/", "zombiezen.com/"}
	kubernetes = []string{"k8s.io/", "sigs.k8s.io/"}
	webServers = []string{"net/http"}
)

// pkg holds the fields of a package that the test needs.
type pkg struct {
	ImportPath                         string
	Standard                           bool
	Imports, TestImports, XTestImports []string
	ImportMap                          map[string]string
}

func TestImports(t *testing.T) {
	for _, broken := range violations(table, list(t)) {
		t.Error(broken)
	}
}

// list returns the packages of the product and their dependencies, from the go command.
func list(t *testing.T) []pkg {
	t.Helper()
	// go test caches a result until a file changes that the test itself has opened; files that
	// go list opens do not count.
	walk(t, func(string) {})
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports,TestImports,XTestImports,ImportMap", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return pkgs
		case err != nil:
			t.Fatalf("reading go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

// violations returns one sentence for each import that breaks the table.
func violations(table map[string]layer, pkgs []pkg) []string {
	known := map[string]pkg{}
	for _, p := range pkgs {
		known[p.ImportPath] = p
	}
	var broken []string
	for _, p := range pkgs {
		rel, ours := relative(p.ImportPath)
		if !ours || rel == "" {
			continue
		}
		name, r, ok := find(table, rel)
		if !ok {
			broken = append(broken, fmt.Sprintf("folder %s is no layer of the import table: %s", rel, newLayerRule))
			continue
		}
		broken = append(broken, direct(table, name, r, p)...)
		if r.kind == core {
			broken = append(broken, reach(name, p, known)...)
		}
	}
	return broken
}

func direct(table map[string]layer, name string, r layer, p pkg) []string {
	rel := strings.TrimPrefix(p.ImportPath, module+"/")
	var broken []string
	for _, imp := range p.Imports {
		if target, ours := relative(imp); ours {
			other, itsLayer, ok := find(table, target)
			switch {
			case ok && other == name:
			case ok && itsLayer.kind == suite && r.kind != suite:
				broken = append(broken, fmt.Sprintf("layer %s imports %s (in %s): %s", name, target, rel, suiteOnlyRule))
			case strings.HasPrefix(target, "cmd/"):
				broken = append(broken, fmt.Sprintf("layer %s imports %s (in %s): %s", name, target, rel, cmdRule))
			case !ok || !allowsLayer(r, other):
				broken = append(broken, fmt.Sprintf("layer %s imports %s (in %s): %s", name, target, rel, r.rule))
			}
		} else if !isStd(imp) && !allowsLib(r, imp) {
			broken = append(broken, fmt.Sprintf("layer %s imports %s (in %s): %s", name, imp, rel, r.rule))
		} else if r.kind == core && hasPrefix(imp, webServers) && !slices.Contains(r.std, imp) {
			broken = append(broken, fmt.Sprintf("layer %s imports %s (in %s): %s", name, imp, rel, httpRule))
		}
	}
	for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
		if target, ours := relative(imp); ours && strings.HasPrefix(target, "cmd/") {
			if other, _, ok := find(table, target); ok && other == name {
				continue // its own layer
			}
			broken = append(broken, fmt.Sprintf("tests of layer %s import %s: %s", name, target, cmdRule))
		}
	}
	return broken
}

// reach follows all imports of a core package and returns the path to a forbidden package.
func reach(name string, from pkg, known map[string]pkg) []string {
	banned := slices.Concat(databases, kubernetes)
	via := map[string]string{from.ImportPath: ""}
	for open := []string{from.ImportPath}; len(open) > 0; open = open[1:] {
		p := known[open[0]]
		for _, imp := range p.Imports {
			if mapped, ok := p.ImportMap[imp]; ok {
				imp = mapped
			}
			if _, seen := via[imp]; seen {
				continue
			}
			via[imp] = p.ImportPath
			if hasPrefix(imp, banned) {
				return []string{fmt.Sprintf("layer %s reaches %s (%s): %s", name, imp, way(via, imp), reachRule)}
			}
			open = append(open, imp)
		}
	}
	return nil
}

func way(via map[string]string, to string) string {
	steps := []string{to}
	for at := via[to]; at != ""; at = via[at] {
		steps = append(steps, at)
	}
	slices.Reverse(steps)
	return strings.Join(steps, " imports ")
}

// find returns the layer of a folder, with its name.
func find(table map[string]layer, rel string) (string, layer, bool) {
	above, _, _ := strings.Cut(rel+"/", "/internal/")
	rel = strings.TrimSuffix(above, "/")
	for _, whole := range []string{"examples/classic", "examples", "kube/api"} {
		if rel == whole || strings.HasPrefix(rel, whole+"/") {
			rel = whole
			break
		}
	}
	if r, ok := table[rel]; ok {
		return rel, r, true
	}
	parent := path.Dir(rel)
	r, ok := table[parent]
	if !ok || !strings.HasSuffix(rel, "test") {
		return "", layer{}, false
	}
	return rel, layer{
		kind:   suite,
		layers: slices.Concat(r.layers, []string{parent, parent + "/"}),
		libs:   slices.Concat(r.libs, []string{"github.com/google/go-cmp/", "pgregory.net/rapid", "go.uber.org/goleak"}),
		rule:   suiteRule,
	}, true
}

func relative(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func allowsLayer(r layer, other string) bool {
	return among(r.layers, other) && !among(r.except, other)
}

func among(layers []string, other string) bool {
	return slices.ContainsFunc(layers, func(one string) bool {
		return one == "*" || one == other || strings.HasSuffix(one, "/") && strings.HasPrefix(other, one)
	})
}

func allowsLib(r layer, imp string) bool {
	if hasPrefix(imp, kubernetes) {
		return hasPrefix(imp, r.libs)
	}
	return slices.Contains(r.libs, "any") || hasPrefix(imp, r.libs)
}

func hasPrefix(imp string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return imp == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(imp, strings.TrimSuffix(prefix, "/")+"/")
	})
}

func isStd(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

// Each rule of the table once kept and once broken.
func TestImportRules(t *testing.T) {
	const lib, sql = "example.com/lib", "example.com/lib/db"
	others := []pkg{
		{ImportPath: lib, Imports: []string{sql}},
		{ImportPath: sql, Imports: []string{"database/sql"}},
	}
	in := func(layer string, imports ...string) pkg {
		for i, imp := range imports {
			if strings.HasPrefix(imp, "~/") {
				imports[i] = path.Join(module, imp[2:])
			}
		}
		return pkg{ImportPath: path.Join(module, layer), Imports: imports}
	}
	tests := in("server")
	tests.XTestImports = []string{module + "/cmd/pawl"}

	for name, c := range map[string]struct {
		pkg  pkg
		want string
	}{
		"std is free":                             {in("fault", "fmt", "net/url"), ""},
		"the base has no libraries":               {in("fault", "golang.org/x/sync/errgroup"), "layer fault imports golang.org/x/sync/errgroup (in fault): fault and outcome import the standard library only"},
		"a lower layer":                           {in("workflow", "~/fault", "~/lock"), ""},
		"a higher layer":                          {in("lock", "~/workflow"), "layer lock imports workflow (in lock): lock, chain"},
		"internal belongs to its layer":           {in("workflow/internal/due", "~/machine"), "layer workflow imports machine (in workflow/internal/due)"},
		"internal is free in its layer":           {in("workflow", "~/workflow/internal/due"), ""},
		"no shared internal":                      {in("internal/util"), "folder internal/util is no layer"},
		"a new folder":                            {in("helpers"), "folder helpers is no layer of the import table"},
		"a new folder in a layer":                 {in("workflow/extra"), "folder workflow/extra is no layer"},
		"Kubernetes in the core":                  {in("control", "k8s.io/client-go/rest"), "layer control imports k8s.io/client-go/rest"},
		"Kubernetes in the server":                {in("server", "k8s.io/api/core/v1"), "layer server imports k8s.io/api/core/v1"},
		"other libraries in the server":           {in("server", "github.com/danielgtaylor/huma/v2"), ""},
		"edges do not know each other":            {in("server", "~/store/sql"), "layer server imports store/sql (in server): layers at the edge import core"},
		"sibling operators":                       {in("operator/rollout", "~/operator/foundationdb"), "sibling operators never import each other"},
		"kube for operators":                      {in("operator/rollout", "~/kube/workload", "~/rollout"), ""},
		"cmd imports all":                         {in("cmd/pawl", "~/server", "~/store/sql", "k8s.io/api/core/v1"), ""},
		"a simulated database in cmd":             {in("cmd/pawl", "~/operator/foundationdb/sandbox", "~/fdb/sim"), "layer cmd/pawl imports fdb/sim (in cmd/pawl): cmd/pawl imports all layers, but simulated databases through"},
		"a sandbox has no client":                 {in("operator/foundationdb/sandbox", "~/operator/foundationdb/sim", "~/operator/foundationdb/kube"), "layer operator/foundationdb/sandbox imports operator/foundationdb/kube"},
		"nothing imports cmd":                     {in("examples/demo", "~/cmd/pawl"), "nothing imports cmd"},
		"nor do tests":                            {tests, "tests of layer server import cmd/pawl"},
		"a classic operator":                      {in("examples/classic/shop", "~/compat/wfengine", "k8s.io/api/core/v1"), ""},
		"a classic operator has compat":           {in("examples/classic", "~/workflow"), "an operator of the classic style imports compat"},
		"other examples have it not":              {in("examples/embed", "~/compat/wfengine"), "layer examples imports compat/wfengine"},
		"a folder named like a conformance suite": {in("workflow/deep/storetest"), "folder workflow/deep/storetest is no layer"},
		"a conformance suite knows its layer":     {in("workflow/storetest", "~/workflow", "~/fault", "pgregory.net/rapid"), ""},
		"a conformance suite knows no more":       {in("workflow/storetest", "~/machine"), "layer workflow/storetest imports machine"},
		"suites are for tests":                    {in("store/sql", "~/workflow/storetest"), "a conformance suite is for tests only"},
		"HTTP in the core":                        {in("workflow", "net/http"), "layer workflow imports net/http (in workflow): the core imports no HTTP"},
		"HTTP in action":                          {in("workflow/action", "net/http"), ""},
		"SQL in the core":                         {in("machine", "database/sql"), "layer machine reaches database/sql (" + module + "/machine imports database/sql)"},
		"SQL behind a library":                    {in("chain", lib), "chain imports example.com/lib imports example.com/lib/db imports database/sql"},
	} {
		t.Run(name, func(t *testing.T) {
			got := violations(table, append(slices.Clone(others), c.pkg))
			switch all := strings.Join(got, "\n"); {
			case c.want == "" && len(got) > 0:
				t.Errorf("want no complaint, got:\n%s", all)
			case !strings.Contains(all, c.want):
				t.Errorf("want %q, got:\n%s", c.want, all)
			}
		})
	}
}
