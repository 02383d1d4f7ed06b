package sim

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
)

// container is a container of a pod that was started.
type container struct {
	p        *pod
	name     string
	image    string // that it runs; wanted is that of the pod
	wanted   string
	version  fdb.Version
	env      map[string]string
	running  bool
	since    metav1.Time
	restarts int32
	launcher *launcher
	monitor  *monitor
}

// program is what a container runs.
type program int

const (
	other        program        = iota // nothing of FoundationDB
	crashes                            // it ends at once, again and again
	launches                           // fdb-kubernetes-monitor
	copies                             // fdb-kubernetes-monitor --mode sidecar, or --mode init
	serves                             // the sidecar, or its init container
	monitors                           // fdbmonitor
	backsUp                            // backup_agent
	crashCommand = "crash-loop"        // the command that is there to do harm
)

// programOf tells what a container runs. The programs are told apart by their words and images.
func programOf(c *corev1.Container) program {
	words := append(slices.Clone(c.Command), c.Args...)
	line := strings.Join(words, " ")
	flags := flagsOf(c)
	repository, _, _ := strings.Cut(path.Base(c.Image), ":")
	switch {
	case slices.Contains(words, crashCommand) || strings.HasPrefix(line, "sh -c "+crashCommand):
		return crashes
	case len(c.Command) > 0 && path.Base(c.Command[0]) == "backup_agent" || strings.Contains(line, "backup_agent "):
		return backsUp
	case strings.Contains(line, "fdbmonitor ") && strings.Contains(line, "--conffile"):
		return monitors
	case flags.one("mode") == "sidecar" || flags.one("mode") == "init":
		return copies
	case flags.has("init-mode") || strings.HasSuffix(repository, "kubernetes-sidecar"):
		return serves
	case strings.HasSuffix(repository, "kubernetes-monitor") || flags.has("input-dir") && c.Name == "foundationdb":
		return launches
	case c.Name == "foundationdb" && len(words) > 0:
		return crashes // the image has no such program
	}
	return other
}

// flags are the flags of a program.
type flags map[string][]string

func (f flags) has(flag string) bool { return len(f[flag]) > 0 }

func (f flags) one(flag string) string {
	if f.has(flag) {
		return f[flag][len(f[flag])-1]
	}
	return ""
}

func (f flags) or(flag, value string) string {
	if f.has(flag) {
		return f.one(flag)
	}
	return value
}

// flagsOf reads the flags of a container: --a b, --a=b, and --a alone, which is "true".
func flagsOf(c *corev1.Container) flags {
	f := flags{}
	var words []string
	for _, word := range append(slices.Clone(c.Command), c.Args...) {
		words = append(words, strings.Fields(word)...)
	}
	for i := 0; i < len(words); i++ {
		flag, isFlag := strings.CutPrefix(words[i], "--")
		if !isFlag {
			continue
		}
		value := "true"
		if before, after, found := strings.Cut(flag, "="); found {
			flag, value = before, after
		} else if i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++
			value = words[i]
		}
		f[flag] = append(f[flag], value)
	}
	return f
}

var versionInTag = regexp.MustCompile(`\d+\.\d+\.\d+(-rc\d+|-PRERELEASE)?`)

// imageVersion returns the version of the programs in an image.
func imageVersion(image string) (fdb.Version, bool) {
	_, tag, _ := strings.Cut(path.Base(image), ":")
	v, err := fdb.ParseVersion(versionInTag.FindString(tag))
	return v, err == nil
}

// imageOf returns the image of a container of a pod.
func imageOf(o *corev1.Pod, container string) string {
	if c := containerOf(o, container); c != nil {
		return c.Image
	}
	return ""
}

func containerOf(o *corev1.Pod, container string) *corev1.Container {
	for i := range o.Spec.Containers {
		if o.Spec.Containers[i].Name == container {
			return &o.Spec.Containers[i]
		}
	}
	return nil
}

// spec returns the container as its pod has it; nil if the pod is gone.
func (c *container) spec() *corev1.Container {
	if o := c.p.object(); o != nil {
		return containerOf(o, c.name)
	}
	return nil
}

// start starts the program of a container.
func (c *container) start() {
	o, spec := c.p.object(), c.spec()
	if spec == nil || c.p.ended {
		return
	}
	c.image, c.wanted = spec.Image, spec.Image
	c.version, _ = imageVersion(spec.Image)
	c.env = environment(o, spec, c.p)
	c.since = c.p.w.metaNow()
	c.running = true
	switch programOf(spec) {
	case other:
	case crashes:
		c.running = false
		c.restarts++
	case launches:
		c.launcher = newLauncher(c)
		c.launcher.reload()
	case copies:
		c.copyBinaries()
	case serves:
		c.running = c.copyFiles(spec) == nil
		if c.running {
			c.copyBinaries()
			_ = c.copyMonitorConf(spec) // without a file it copies it when it is there
			c.filesCopied()
		}
	case monitors:
		c.monitor = &monitor{c: c}
		c.monitor.reload()
	case backsUp:
		c.p.w.deployments.backing[c.p.uid] = c.p
		c.p.w.deployments.count()
	}
}

// replace starts a container again with another image.
func (p *pod) replace(c *container) {
	if p.ended || p.object() == nil || p.lost() || c.image == c.wanted {
		return
	}
	if c.launcher != nil || c.monitor != nil {
		for _, n := range slices.Sorted(maps.Keys(p.servers)) {
			p.stop(n)
		}
		c.launcher, c.monitor = nil, nil
	}
	c.restarts++
	c.start()
	p.report()
}

// filesChanged tells a program that files of its config map have changed.
func (c *container) filesChanged() {
	if c.launcher != nil {
		c.launcher.reload()
	}
	if c.monitor != nil {
		c.monitor.reload()
	}
}

// annotated tells a launcher of a changed annotation of its pod.
func (c *container) annotated(annotation string) {
	if c.launcher != nil && !c.p.ended && !c.p.lost() {
		c.launcher.annotated(annotation)
	}
}

// environment returns the variables of a container as they are when it starts.
func environment(o *corev1.Pod, c *corev1.Container, p *pod) map[string]string {
	env := map[string]string{"HOSTNAME": o.Name}
	if o.Spec.Hostname != "" {
		env["HOSTNAME"] = o.Spec.Hostname
	}
	for _, v := range c.Env {
		switch {
		case v.ValueFrom == nil:
			env[v.Name] = expand(v.Value, env)
		case v.ValueFrom.FieldRef != nil:
			env[v.Name] = fieldOf(o, v.ValueFrom.FieldRef.FieldPath, p)
		case v.ValueFrom.ConfigMapKeyRef != nil:
			if m := get[*corev1.ConfigMap](p.w.store, name{o.Namespace, v.ValueFrom.ConfigMapKeyRef.Name}); m != nil {
				env[v.Name] = m.Data[v.ValueFrom.ConfigMapKeyRef.Key]
			}
		}
	}
	return env
}

var variableInValue = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)`)

// expand replaces $(NAME) by variables that were set before.
func expand(value string, env map[string]string) string {
	return variableInValue.ReplaceAllStringFunc(value, func(r string) string {
		if known, there := env[r[2:len(r)-1]]; there {
			return known
		}
		return r
	})
}

// fieldOf returns a field of a pod as the downward API has it.
func fieldOf(o *corev1.Pod, field string, p *pod) string {
	for prefix, values := range map[string]map[string]string{"metadata.annotations['": o.Annotations, "metadata.labels['": o.Labels} {
		if key, found := strings.CutPrefix(field, prefix); found {
			return values[strings.TrimSuffix(key, "']")]
		}
	}
	switch field {
	case "metadata.name":
		return o.Name
	case "metadata.namespace":
		return o.Namespace
	case "metadata.uid":
		return string(o.UID)
	case "spec.nodeName":
		return p.node
	case "spec.serviceAccountName":
		return o.Spec.ServiceAccountName
	case "status.hostIP":
		return o.Status.HostIP
	case "status.podIP":
		return p.ips[0]
	case "status.podIPs":
		return strings.Join(p.ips, ",")
	}
	return ""
}
