package sharedstorage

import (
	"context"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// desiredGeneration returns the generation of the spec, or 0 while too little of the cluster is
// known to decide whether a stopped run is still wanted.
func desiredGeneration(c *Cluster) int64 {
	f := c.Facts
	if c.Refused != nil || !f.known(factInstances) || !f.known(factVolume) || !f.known(factClasses) {
		return 0
	}
	if f.Volume.Writer != "" && f.writer() == nil && !f.suspended() {
		return 0 // no run is withdrawn while there is no writer
	}
	return c.Generation
}

// The purposes of events: the parts of the spec that their runs carry out. A stopped run is withdrawn when
// its purpose changes.

func desiredCreation(c *Cluster) (any, error) {
	s := c.Spec
	return map[string]any{"class": c.className(), "version": s.Engine.Version, "image": s.Images[s.Engine.Version], "readers": c.desiredReaders(),
		"size": c.desiredSize(), "volume": s.Storage.Volume, "claim": s.Storage.Claim, "source": s.CloneFrom, "scheduling": s.Scheduling, "ports": s.Ports, "pod": c.podSettings().raw()}, nil
}

func desiredClass(c *Cluster) (any, error) {
	return map[string]any{"class": c.className(), "scheduling": c.Spec.Scheduling}, nil
}

func desiredVersion(c *Cluster) (any, error) {
	want := c.Spec.Engine.Version
	return map[string]any{"version": want, "image": c.Spec.Images[want], "scheduling": c.Spec.Scheduling}, nil
}

func desiredTemplate(c *Cluster) (any, error) {
	class, _ := c.Facts.class(c.className())
	return map[string]any{"class": c.className(), "template": c.template(class, c.Spec.Engine.Version)}, nil
}

func desiredParameters(c *Cluster) (any, error) {
	return map[string]any{"parameters": c.Spec.Parameters}, nil
}

func desiredVolume(c *Cluster) (any, error) { return map[string]any{"size": c.desiredSize()}, nil }

func desiredReaderSpec(c *Cluster) (any, error) {
	return map[string]any{"readers": c.desiredReaders(), "class": c.className(), "scheduling": c.Spec.Scheduling}, nil
}

// fit asks the adapter whether it can provide what the spec asks for, before a run begins.
func (o *Operator) fit(ctx context.Context, c *Cluster) {
	checker, able := o.options.Ports.Instances.(port.Checker)
	p, err := positionOf(c)
	if !able || err != nil || c.Refused != nil || !c.Facts.known(factInstances) || !c.Facts.known(factClasses) {
		return
	}
	if resting := p.State == "" || p.State == Init || p.State == Running || p.State == Hibernated || p.Held; !resting {
		return // the run finds out by itself
	}
	missing := c.desiredReaders() - len(c.Facts.readers())
	if c.Facts.leader() == nil {
		missing++
	}
	if missing <= 0 && !classDiffers(c) && !versionDiffers(c) {
		return
	}
	class, ok := c.Facts.class(c.className())
	if !ok {
		class = port.Class{}
	}
	want := port.Instance{Class: class, Version: c.Spec.Engine.Version, NodeSelector: c.Spec.Scheduling.NodeSelector, Spread: c.Spec.Scheduling.Spread, Pod: c.podSettings().raw()}
	size := c.desiredSize()
	if c.Facts.known(factVolume) && c.Facts.Volume.Size > 0 { // the current size, since new claims are created with it
		size = c.Facts.Volume.Size
	}
	check := func(version string) error {
		want.Version, want.Image = version, c.Spec.Images[version]
		asking, cancel := context.WithTimeout(ctx, o.options.CallTimeout)
		defer cancel()
		return port.Guard(func() error { return checker.Check(asking, c.Ref, want, max(missing, 0), size) }) // recreating needs no more instances
	}
	c.Facts.Unfit = map[string]error{}
	err = check(want.Version)
	if leader := c.Facts.leader(); fault.Of(err) == port.VersionUnsupported {
		c.Facts.Unfit[ofVersion] = err
		if leader == nil {
			return
		}
		err = check(leader.Version)
	}
	if fault.Of(err) == port.QuotaExceeded {
		c.Facts.Unfit[ofQuota] = err
	}
}
