package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
)

// Annotations between the operator and the launcher. Source: foundationdb 7.3.69,
// fdbkubernetesmonitor/api/annotations.go.
const (
	configurationAnnotation = "foundationdb.org/launcher-current-configuration"
	environmentAnnotation   = "foundationdb.org/launcher-environment"
	outdatedAnnotation      = "foundationdb.org/outdated-config-map-seen"
	clusterFileAnnotation   = "foundationdb.org/cluster-file-change"
	isolateAnnotation       = "foundationdb.org/isolate-process-group"
)

// launcher is fdb-kubernetes-monitor. Source of what it does: foundationdb 7.3.69, fdbkubernetesmonitor/monitor.go,
// api/config.go and main.go.
type launcher struct {
	c         *container
	file      string // that it reads
	count     int    // of servers
	binary    string
	shared    string // where the sidecar puts programs of other versions
	labels    bool   // it knows the labels of its node
	active    *configuration
	text      string
	loaded    time.Time
	announced fdb.Connection // the cluster file when it was last announced
}

// configuration is config.json, as far as it was accepted.
type configuration struct {
	Version    string            `json:"version"`
	RunServers *bool             `json:"runServers"`
	Arguments  []configuredValue `json:"arguments"`

	binary  string
	version fdb.Version // of the binary
}

type configuredValue struct {
	Type       string            `json:"type"`
	Value      string            `json:"value"`
	Values     []configuredValue `json:"values"`
	Source     string            `json:"source"`
	Multiplier int               `json:"multiplier"`
	Offset     int               `json:"offset"`
	IPFamily   int               `json:"ipFamily"`
}

func newLauncher(c *container) *launcher {
	f := flagsOf(c.spec())
	for variable, value := range c.env {
		if flag := strings.ReplaceAll(strings.ToLower(variable), "_", "-"); !f.has(flag) {
			f[flag] = []string{value}
		}
	}
	count, err := strconv.Atoi(f.or("process-count", "1"))
	if err != nil {
		count = 1
	}
	return &launcher{
		c: c, count: count, binary: f.or("fdbserver-path", "/usr/bin/fdbserver"),
		file:   path.Join(f.or("input-dir", "."), f.or("input-monitor-conf", "config.json")),
		shared: f.or("shared-binary-dir", "/var/fdb/shared-binaries/bin"),
		labels: f.one("enable-node-watch") == "true",
	}
}

// variables are the environment of the launcher and what it knows of its node.
func (l *launcher) variables() map[string]string {
	known := maps.Clone(l.c.env)
	if n := get[*corev1.Node](l.c.p.w.store, name{name: l.c.p.node}); l.labels && n != nil {
		for key, value := range n.Labels {
			known["NODE_LABEL_"+strings.ToUpper(strings.NewReplacer("/", "_", ".", "_").Replace(key))] = value
		}
	}
	return known
}

// reload reads the file, and keeps the old configuration if it is not a good one.
func (l *launcher) reload() {
	spec := l.c.spec()
	if spec == nil || l.c.p.ended {
		return
	}
	text, there := l.c.p.read(spec, l.file)
	next := &configuration{}
	if !there || json.Unmarshal([]byte(text), next) != nil {
		return
	}
	version, err := fdb.ParseVersion(next.Version)
	if err != nil {
		return
	}
	next.binary, next.version = l.binary, l.c.version
	if !l.c.version.ProtocolCompatible(version) {
		next.binary, next.version = path.Join(l.shared, version.String(), "fdbserver"), version
		if _, there := l.c.p.read(spec, next.binary); !there {
			return
		}
	}
	if _, err := next.command(1, l.variables()); err != nil {
		return
	}
	if next.runs() {
		if isolated, err := strconv.ParseBool(l.c.p.object().Annotations[isolateAnnotation]); err == nil && isolated {
			next.RunServers = new(bool)
		}
	}
	l.accept(next, text)
	l.annotate()
}

func (c *configuration) runs() bool { return c.RunServers == nil || *c.RunServers }

// command returns the words of the command of a server, the first being number 1.
func (c *configuration) command(number int, variables map[string]string) ([]string, error) {
	words := []string{c.binary}
	for _, a := range c.Arguments {
		word, err := a.resolve(number, variables)
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

func (v configuredValue) resolve(number int, variables map[string]string) (string, error) {
	switch v.Type {
	case "", "Literal":
		return v.Value, nil
	case "Concatenate":
		whole := ""
		for _, part := range v.Values {
			text, err := part.resolve(number, variables)
			if err != nil {
				return "", err
			}
			whole += text
		}
		return whole, nil
	case "ProcessNumber":
		if v.Multiplier != 0 {
			number *= v.Multiplier
		}
		return strconv.Itoa(number + v.Offset), nil
	case "Environment", "IPList":
		return v.lookUp(variables)
	}
	return "", fmt.Errorf("unsupported argument type %s", v.Type)
}

func (v configuredValue) lookUp(variables map[string]string) (string, error) {
	value, there := variables[v.Source]
	if !there {
		return "", fmt.Errorf("missing environment variable %s", v.Source)
	}
	if v.Type != "IPList" {
		return value, nil
	}
	if v.IPFamily != 4 && v.IPFamily != 6 {
		return "", fmt.Errorf("unsupported IP family %d", v.IPFamily)
	}
	for text := range strings.SplitSeq(value, ",") {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Unmap().Is4() == (v.IPFamily == 4) {
			return text, nil
		}
	}
	return "", fmt.Errorf("could not find IP with family %d", v.IPFamily)
}

// accept takes a configuration: what does not run is started with it, and what runs keeps its arguments until it
// ends, unless nothing shall run.
func (l *launcher) accept(next *configuration, text string) {
	if l.active != nil && reflect.DeepEqual(l.active, next) {
		return
	}
	l.active, l.text, l.loaded = next, text, l.c.p.w.Now()
	for n := 1; n <= l.count; n++ {
		switch s := l.c.p.servers[n]; {
		case !next.runs():
			if s != nil {
				l.c.p.stop(n)
			}
		case s == nil:
			l.start(n)
		}
	}
}

// start starts a server with the configuration as it is now.
func (l *launcher) start(n int) {
	if l.c.p.ended || l.active == nil || !l.active.runs() || l.c.launcher != l {
		return
	}
	again := func() { l.start(n) }
	words, err := l.active.command(n, l.variables())
	if err != nil {
		l.c.p.w.after(l.c.p.w.options.Times.Restart, again)
		return
	}
	l.c.p.run(n, words, l.active.version, squared, again)
}

// squared is the delay of a launcher: the square of the number of crashes in seconds, at most 60, and it is forgotten
// once a server has run for 5 min.
func squared(crashes int, ran time.Duration) (delay time.Duration, counted int) {
	if ran > 5*time.Minute {
		crashes = 0
	}
	return min(time.Duration(crashes*crashes)*time.Second, time.Minute), crashes + 1
}

// annotate writes what the launcher does into the annotations of its pod.
func (l *launcher) annotate() {
	used := map[string]string{"BINARY_DIR": path.Dir(l.active.binary)}
	variables := l.variables()
	for _, a := range l.active.Arguments {
		a.collect(variables, used)
	}
	encoded, err := json.Marshal(used)
	if err != nil {
		return
	}
	l.write(map[string]string{configurationAnnotation: l.text, environmentAnnotation: string(encoded)})
}

func (v configuredValue) collect(variables, used map[string]string) {
	if v.Source != "" {
		if value, err := v.lookUp(variables); err == nil {
			used[v.Source] = value
		}
	}
	for _, part := range v.Values {
		part.collect(variables, used)
	}
}

func (l *launcher) write(annotations map[string]string) {
	o := l.c.p.object()
	if o == nil || o.DeletionTimestamp != nil || l.c.p.lost() {
		return
	}
	update(l.c.p.w.store, o, func(o *corev1.Pod) {
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		maps.Copy(o.Annotations, annotations)
	})
}

// annotated reads the file again when the operator says that it is outdated, or when the pod is to be isolated.
func (l *launcher) annotated(annotation string) {
	o := l.c.p.object()
	if o == nil {
		return
	}
	if annotation == isolateAnnotation {
		l.reload()
		return
	}
	at, err := strconv.ParseInt(o.Annotations[annotation], 10, 64)
	if err == nil && at > l.loaded.Unix() {
		l.reload()
	}
}

// watch announces a changed cluster file.
func (l *launcher) watch() (current bool) {
	for _, s := range l.c.p.servers {
		file := l.c.p.w.database.ClusterFile(s.folder)
		if len(l.announced.Coordinators) == 0 {
			l.announced = file
		}
		if file.String() != l.announced.String() {
			l.announced = file
			l.write(map[string]string{clusterFileAnnotation: strconv.FormatInt(l.c.p.w.Now().Unix(), 10)})
		}
		return file.ID == l.c.p.w.kubelet.known.ID
	}
	return true
}

// watchFiles has the launchers look at their cluster files, again and again, while one may have changed, and the names
// of coordinators resolved.
func (k *kubelet) watchFiles() {
	if now := k.w.database.Connection(); now.ID != k.known.ID || k.stale {
		k.known, k.stale = now, false
		for _, p := range sorted(k.pods) {
			for _, c := range p.containers {
				if c.launcher != nil && c.running && !p.ended && !c.launcher.watch() {
					k.stale = true
				}
			}
		}
	}
	k.w.network.resolve()
	k.w.after(k.w.options.Times.Watch, k.watchFiles)
}
