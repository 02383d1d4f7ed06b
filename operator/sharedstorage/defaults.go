package sharedstorage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Defaults for what a spec leaves out.
const (
	defaultReaders = 2
	defaultClass   = "small"
	defaultSize    = 10 << 30
	minSize        = 1 << 20
	maxSize        = 1 << 50
	strict         = "strict" // the default of durability
	defaultSpread  = "kubernetes.io/hostname"
)

// desiredReaders returns the number of readers in the spec, or the default.
func (c *Cluster) desiredReaders() int {
	if c.Spec.Readers == nil {
		return defaultReaders
	}
	return int(*c.Spec.Readers)
}

func (c *Cluster) haEnabled() bool { return c.Spec.HA.Enabled == nil || *c.Spec.HA.Enabled }

func (c *Cluster) sameNode() bool { return c.Spec.HA.SameNode }

func (c *Cluster) durability() string { return cmp.Or(c.Spec.Durability, strict) }

func (c *Cluster) className() string { return cmp.Or(c.Spec.Class.Name, defaultClass) }

// desiredSize returns the size of the volume in the spec in bytes, or the default.
func (c *Cluster) desiredSize() int64 {
	if c.Spec.Storage.Size == nil || c.Spec.Storage.Size.IsZero() {
		return defaultSize
	}
	return c.Spec.Storage.Size.Value()
}

// parameters returns the parameters of a class, overridden by those of the spec. Publications need a
// wal_level of their own.
func (c *Cluster) parameters(class port.Class) map[string]string {
	all := maps.Clone(class.Parameters)
	if all == nil {
		all = map[string]string{}
	}
	if declared.Publishes(&c.Spec) {
		all["wal_level"] = "logical"
	}
	maps.Copy(all, c.Spec.Parameters)
	return all
}

// class resolves a class by its name.
func (f *Facts) class(name string) (port.Class, bool) {
	class, ok := f.Classes[name]
	if class.Name == "" {
		class.Name = name
	}
	return class, ok
}

// Parts of a spec that can be refused. A refused part holds back only the transitions that need
// it.
const (
	ofVersion = "version"
	ofClass   = "class"
	ofReaders = "readers"
	ofSize    = "size"
	ofQuota   = "quota"
)

// refusal returns why the spec, or these parts of it, cannot be carried out; nil if they can. It
// repeats the CEL rules of the CRD, because not every store applies them.
func (c *Cluster) refusal(parts ...string) error {
	f, s := c.Facts, c.Spec
	asked := func(part string) bool { return len(parts) == 0 || slices.Contains(parts, part) }
	if c.Refused != nil {
		return c.Refused
	}
	if s.Engine.Type != "" && s.Engine.Type != "postgres" {
		return SpecInvalid.Errorf("engine.type: %q is not served, only postgres", s.Engine.Type)
	}
	if had := c.Status.Version; asked(ofVersion) && had != "" && s.Engine.Version != "" && major(had) != major(s.Engine.Version) {
		return port.VersionUnsupported.Errorf("engine.version: from %s to %s is another major version", had, s.Engine.Version)
	}
	if asked(ofVersion) && len(s.Images) > 0 && s.Engine.Version != "" && s.Images[s.Engine.Version] == "" {
		return port.VersionUnsupported.Errorf("images: there is none for version %s", s.Engine.Version)
	}
	if err := WrongPods(&s); err != nil {
		return err
	}
	if asked(ofClass) && f.known(factClasses) && f != nil {
		class, ok := f.class(c.className())
		if !ok {
			return ClassUnknown.Errorf("class.name: there is no class %q", c.className())
		}
		if err := c.wrongMemoryOf(class); err != nil {
			return err
		}
	}
	for _, part := range []string{ofVersion, ofQuota} {
		if f != nil && asked(part) && f.Unfit[part] != nil {
			return f.Unfit[part]
		}
	}
	if err := c.wrongBackup(); err != nil {
		return err
	}
	if err := CheckPooler(s.Pooler); err != nil {
		return err
	}
	if n := c.desiredReaders(); asked(ofReaders) && (n < 0 || n > 15) {
		return SpecInvalid.Errorf("readers: %d is not within 0 and 15", n)
	}
	if n := c.desiredSize(); asked(ofSize) && (n < minSize || n > maxSize) {
		return SpecInvalid.Errorf("storage.size: %d bytes are not within 1Mi and 1Pi", n)
	}
	if had := c.Status.Storage.Size; asked(ofSize) && had != nil && c.desiredSize() < had.Value() {
		return port.StorageShrink.Errorf("storage.size: the volume has %s, and %d bytes are wanted", had.String(), c.desiredSize())
	}
	return nil
}

func major(version string) string {
	first, _, _ := strings.Cut(version, ".")
	return first
}

// Input is the input of a run: what the spec or the request asked for when its event won.
type Input struct {
	Request string               `json:"request,omitempty"` // id of the request that the run carries out
	Class   port.Class           `json:"class,omitzero"`
	Version string               `json:"version,omitempty"`
	Readers []string             `json:"readers"`           // places that the flow works on, in order
	ID      string               `json:"id,omitempty"`      // the place that the flow works on
	Node    string               `json:"node,omitempty"`    // target node
	Source  string               `json:"source,omitempty"`  // cluster to copy from
	Started map[string]time.Time `json:"started,omitempty"` // by instance name: the last start of each engine
	// Former has the instances that the run recreates, by name, as they ran before: what an undo gives back.
	Former map[string]port.Instance `json:"former,omitempty"`
	Alone  bool                     `json:"alone,omitempty"` // there is no reader: the writer is recreated in place
	Size   int64                    `json:"size,omitempty"`
	Forced bool                     `json:"forced,omitempty"`
	Next   int64                    `json:"next,omitempty"`   // new value of status.nextID
	Pooled bool                     `json:"pooled,omitempty"` // there are poolers, which a switch pauses
}
