package sim

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
)

// server is one fdbserver of a pod.
type server struct {
	p      *pod
	number int
	name   string
	folder string
	again  func() // has its launcher start it again

	started time.Time
	crashes int // one soon after the other
	backoff backoff
}

// backoff is how long a server that crashed waits for its next start: it is told how often it has crashed, one soon
// after the other, and how long it has run, and it counts.
type backoff func(crashes int, ran time.Duration) (delay time.Duration, counted int)

// Crash ends a server of a pod as an error does: it starts again after the delay of its launcher, which grows.
func (k *kubelet) Crash(namespace, pod string, number int) {
	k.crashing = true
	defer func() { k.crashing = false }()
	k.w.database.Crash(ServerName(namespace, pod, number))
}

// ServerName returns the name that the database knows a server of a pod by, the first being number 1.
func ServerName(namespace, pod string, number int) string {
	return fmt.Sprintf("%s/%s/%d", namespace, pod, number)
}

// exits has the launcher of a server start it again.
func (k *kubelet) exits(ended string) {
	s := k.servers[ended]
	if s == nil {
		return
	}
	wait := k.w.options.Times.Restart
	if k.crashing {
		var delay time.Duration
		delay, s.crashes = s.backoff(s.crashes, k.w.Now().Sub(s.started))
		wait += delay
	}
	k.w.after(wait, func() {
		if k.servers[ended] == s && !s.p.ended {
			s.again()
		}
	})
}

// stop ends a server of a pod for good.
func (p *pod) stop(number int) {
	s := p.servers[number]
	delete(p.servers, number)
	delete(p.w.kubelet.servers, s.name)
	p.w.database.Stop(s.name)
}

// run starts fdbserver with the words of a command. One that cannot start is tried again.
func (p *pod) run(number int, words []string, version fdb.Version, backoff backoff, again func()) {
	w := p.w
	o := p.object()
	if o == nil || p.ended {
		return
	}
	made, volume, err := p.parse(o, number, words, version)
	if err != nil {
		w.after(10*w.options.Times.Restart, again)
		return
	}
	if w.claims.folders[volume] == nil {
		w.claims.folders[volume] = map[string]bool{}
	}
	w.claims.folders[volume][made.Folder] = true
	s := &server{p: p, number: number, name: made.Name, folder: made.Folder, again: again, started: w.Now(), backoff: backoff}
	if old := p.servers[number]; old != nil {
		s.crashes = old.crashes
	}
	p.servers[number] = s
	w.kubelet.servers[s.name] = s
	w.database.Start(made)
	w.database.Cut(s.name, p.lost())
	w.kubelet.stale = true
}

// parse makes a server of its command, as fdbserver reads it.
func (p *pod) parse(o *corev1.Pod, number int, words []string, version fdb.Version) (made fdbsim.Server, volume types.UID, err error) {
	main := containerOf(o, "foundationdb")
	if main == nil {
		return made, "", fmt.Errorf("pod %s has no container foundationdb", p.name)
	}
	made = fdbsim.Server{
		Name: ServerName(p.name.namespace, p.name.name, number), Version: version, Class: "unset",
		Locality: map[string]string{}, CommandLine: strings.Join(words, " "),
	}
	datadir, seed := "", ""
	for _, word := range words[1:] {
		flag, value, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		flag = strings.ReplaceAll(flag, "-", "_")
		switch {
		case flag == "public_address":
			for text := range strings.SplitSeq(value, ",") {
				address, err := fdb.ParseAddress(text)
				if err != nil || address.Port == 0 {
					return made, "", fmt.Errorf("public address %q: %w", text, err)
				}
				made.Addresses = append(made.Addresses, address)
			}
		case flag == "class":
			made.Class = fdb.Class(value)
		case flag == "datadir":
			datadir = path.Clean(value)
		case flag == "seed_cluster_file":
			seed = value
		default:
			if locality, found := strings.CutPrefix(flag, "locality_"); found {
				made.Locality[locality] = value
			}
		}
	}
	if len(made.Addresses) == 0 || datadir == "" {
		return made, "", fmt.Errorf("%s: an address or a data folder is missing", made.CommandLine)
	}
	mounted, rest := volumeAt(o, main, datadir)
	owner := p.name.String()
	if volume = p.uid; mounted != nil && mounted.PersistentVolumeClaim != nil {
		claim := get[*corev1.PersistentVolumeClaim](p.w.store, name{o.Namespace, mounted.PersistentVolumeClaim.ClaimName})
		if claim == nil {
			return made, "", fmt.Errorf("the claim of pod %s is gone", p.name)
		}
		volume, owner = claim.UID, nameOf(claim).String()
	}
	made.Folder = owner + "#" + strings.TrimLeft(string(volume[len(volume)-12:]), "0")
	if rest != "" && rest != "." {
		made.Folder += "/" + rest
	}
	if made.Connection, err = p.clusterFile(main, volume, made.Folder, seed); err != nil {
		return made, "", err
	}
	return made, volume, nil
}

// clusterFile returns the cluster file of a volume: that of its data folders, or else the one to begin with.
func (p *pod) clusterFile(main *corev1.Container, volume types.UID, folder, seed string) (fdb.Connection, error) {
	known := slices.Collect(func(yield func(string) bool) {
		if !yield(folder) {
			return
		}
		for other := range p.w.claims.folders[volume] {
			if !yield(other) {
				return
			}
		}
	})
	slices.Sort(known[1:])
	for _, folder := range known {
		if c := p.w.database.ClusterFile(folder); len(c.Coordinators) > 0 {
			return c, nil
		}
	}
	text, _ := p.read(main, seed)
	return fdb.ParseConnection(text)
}

// WriteClusterFile writes the cluster file in the data folders of a pod, as somebody with a shell in it does, and ends
// its servers, unless they have it.
func (k *kubelet) WriteClusterFile(namespace, pod string, c fdb.Connection) error {
	p := k.pod(namespace, pod)
	if p == nil || p.ended || p.lost() {
		return fmt.Errorf("pod %s/%s does not run", namespace, pod)
	}
	for _, n := range slices.Sorted(maps.Keys(p.servers)) {
		if s := p.servers[n]; k.w.database.ClusterFile(s.folder).String() != c.String() {
			k.w.database.WriteClusterFile(s.folder, c)
			k.w.database.Crash(s.name)
		}
	}
	return nil
}
