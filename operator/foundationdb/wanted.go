package foundationdb

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Wanted is what the children of one cluster should be, worked out once for each class: pods of a class differ only
// by a number. It serves one goroutine.
//
//	wanted := foundationdb.WantedOf(cluster)
//	wanted = wanted.Renewed(cluster) // in the next pass: the same one, unless spec or status ask for other children
//	hash, err := wanted.PodHash(id) // without building the pod, which costs some ten times as much
//	why, replace := wanted.Misconfigured(id, pod, claim, options)
type Wanted struct {
	c        *v1beta2.FoundationDBCluster // what the children follow from, and nothing else
	text     string                       // its JSON
	pods     map[fdb.GroupID]*podPattern  // by prefix and class
	hashes   map[fdb.GroupID]string
	claims   map[fdb.Class]*corev1.PersistentVolumeClaim
	commands map[commandKey][]argument
	kept     map[fdb.GroupID]string // names of claims
}

type commandKey struct {
	class   fdb.Class
	image   v1beta2.ImageType
	servers int
}

// WantedOf returns what the children of a cluster should be. Its spec must not change any more.
func WantedOf(c *v1beta2.FoundationDBCluster) *Wanted { return (*Wanted)(nil).Renewed(c) }

// Renewed returns what the children of a cluster should be now: w, if they follow from the same, or another one.
func (w *Wanted) Renewed(c *v1beta2.FoundationDBCluster) *Wanted {
	source := &v1beta2.FoundationDBCluster{Spec: c.Spec}
	source.Namespace, source.Name, source.UID = c.Namespace, c.Name, c.UID
	source.Status.ConnectionString, source.Status.RunningVersion = c.Status.ConnectionString, c.Status.RunningVersion
	source.Status.RequiredAddresses, source.Status.HasListenIPsForAllPods = c.Status.RequiredAddresses, c.Status.HasListenIPsForAllPods
	encoded, err := json.Marshal(source)
	if err != nil {
		panic(err) // a kind of Kubernetes
	}
	if w != nil && w.text == string(encoded) {
		return w
	}
	return &Wanted{
		c: source, text: string(encoded), pods: map[fdb.GroupID]*podPattern{}, hashes: map[fdb.GroupID]string{},
		claims: map[fdb.Class]*corev1.PersistentVolumeClaim{}, commands: map[commandKey][]argument{}, kept: map[fdb.GroupID]string{},
	}
}

// StartCommands is StartCommands for a pod of the cluster.
func (w *Wanted) StartCommands(class fdb.Class, image v1beta2.ImageType, servers int, variables map[string]string) ([]string, error) {
	key := commandKey{class, image, servers}
	arguments, known := w.commands[key]
	if !known {
		arguments = template(w.c, class, image, servers)
		w.commands[key] = arguments
	}
	return startCommands(arguments, class, image, servers, variables)
}

// KeepClaim lets a group keep the claim that fdb-kubernetes-operator 2.33.0 has made, which does not name claims by
// their template (api/v1beta2/foundationdbcluster_types.go, GetPvcName): cluster-class-number-data. With any other
// claim, or none, it is the template's again.
func (w *Wanted) KeepClaim(id fdb.GroupID, claim *corev1.PersistentVolumeClaim) {
	name := publishedClaimName(w.c, id)
	keep := claim != nil && claim.Name == name && name != ClaimName(w.c, id)
	if _, kept := w.kept[id]; keep == kept {
		return
	}
	delete(w.hashes, id)
	if delete(w.kept, id); keep {
		w.kept[id] = name
	}
}

// ClaimName returns the name of the claim that a group has or gets; empty: none.
func (w *Wanted) ClaimName(id fdb.GroupID) string {
	if name, kept := w.kept[id]; kept {
		return name
	}
	return ClaimName(w.c, id)
}

// podSpec is PodSpec with the claim that the group has.
func (w *Wanted) podSpec(id fdb.GroupID) (*corev1.PodSpec, error) {
	spec, err := PodSpec(w.c, id)
	if err == nil {
		useClaim(spec, ClaimName(w.c, id), w.ClaimName(id))
	}
	return spec, err
}

// podPattern is the JSON of the pods of a class, cut where the number of the group stands.
type podPattern struct {
	parts [][]byte // nil: the number stands elsewhere too
	err   error
}

// noNumber is the number of no group.
const noNumber = 4061980257113

// PodHash returns the hash of a group's pod, as PodHash does of PodSpec. It fails with SpecInvalid.
func (w *Wanted) PodHash(id fdb.GroupID) (string, error) {
	if hash, known := w.hashes[id]; known {
		return hash, nil
	}
	hash, err := w.hashOf(id)
	if err == nil {
		w.hashes[id] = hash
	}
	return hash, err
}

func (w *Wanted) hashOf(id fdb.GroupID) (string, error) {
	if _, kept := w.kept[id]; kept || named(w.c.Spec.Buggify, v1beta2.ProcessGroupID(id.String())) {
		return w.podHash(id)
	}
	class := fdb.GroupID{Prefix: id.Prefix, Class: id.Class, Number: noNumber}
	p := w.pods[class]
	if p == nil {
		p = w.pattern(class, id)
		w.pods[class] = p
	}
	switch {
	case p.err != nil:
		return "", p.err
	case p.parts == nil:
		return w.podHash(id)
	}
	return p.hash(id), nil
}

func (w *Wanted) podHash(id fdb.GroupID) (string, error) {
	spec, err := w.podSpec(id)
	if err != nil {
		return "", err
	}
	return PodHash(spec), nil
}

// pattern makes the pattern of a class, and tries it with one group.
func (w *Wanted) pattern(class, id fdb.GroupID) *podPattern {
	spec, err := PodSpec(w.c, class)
	if err != nil {
		return &podPattern{err: err}
	}
	encoded, err := json.Marshal(spec)
	if err != nil {
		panic(err) // a spec of Kubernetes
	}
	p := &podPattern{parts: bytes.Split(append(encoded, '\n'), []byte(strconv.Itoa(noNumber)))}
	if full, err := w.podHash(id); err != nil || full != p.hash(id) {
		p.parts = nil
	}
	return p
}

func (p *podPattern) hash(id fdb.GroupID) string {
	sum := sha256.Sum256(bytes.Join(p.parts, strconv.AppendInt(nil, int64(id.Number), 10)))
	return hex.EncodeToString(sum[:])
}

// named reports whether buggify names a group by its id.
func named(b v1beta2.BuggifyConfig, id v1beta2.ProcessGroupID) bool {
	target := v1beta2.ProcessGroupTarget(id)
	return slices.Contains(b.NoSchedule, target) || slices.Contains(b.CrashLoop, target) ||
		slices.ContainsFunc(b.CrashLoopContainers, func(c v1beta2.CrashLoopContainer) bool { return slices.Contains(c.Targets, target) })
}

// claim returns the claim of a class: name and id are those of any group. nil: there is none, or it cannot be built.
func (w *Wanted) claim(class fdb.Class) *corev1.PersistentVolumeClaim {
	claim, there := w.claims[class]
	if !there {
		claim, _ = Claim(w.c, fdb.GroupID{Class: class, Number: 1})
		w.claims[class] = claim
	}
	return claim
}
