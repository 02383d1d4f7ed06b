package sharedstorage

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// volumeRecordLost reports whether the record of the volume is gone or older than the status knows
// it. Until it is restored no instance is created. A record that a deletion released is not lost.
func (c *Cluster) volumeRecordLost() bool {
	f, was := c.Facts, c.Status.Storage
	switch {
	case !f.known(factVolume), !f.known(factInstances):
		return false
	case len(f.Instances) == 0 && (was.Volume == "" || !c.DeletedAt.IsZero()):
		return false
	}
	return f.Volume.State == "" || f.Volume.Epoch < was.Epoch
}

// restore rebuilds a lost volume record from the status and from the instances that may know a
// newer grant. If the newest grant is not certain, the volume is Unknown with GRANT_LOST.
func (o *Operator) restore(ctx context.Context, c *Cluster) {
	if !c.volumeRecordLost() {
		return
	}
	was, wrote, err := c.newestGrant()
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, 2*o.options.CallTimeout)
		defer cancel()
		var got port.Volume
		err = port.Guard(func() error {
			got, err = o.options.Ports.Storage.Restore(limited, c.Ref, was, wrote)
			return err
		})
		if err == nil {
			c.Facts.Volume = got
			o.emit(c, Event{Warning: true, Reason: "GrantRestored", Message: fmt.Sprintf("the record of who may write was gone, and is created again: %s, epoch %d", cmp.Or(was.Writer, "nobody"), was.Epoch)})
			return
		}
	}
	if fault.Of(err) != port.GrantLost {
		err = port.GrantLost.Errorf("the record of who may write is gone, and is not restored: %w", err)
	}
	c.Facts.Unknown[factVolume] = err
}

// newestGrant determines who had the newest grant. wrote is true if that instance wrote under it.
//
//	an instance writes now          it holds the newest lease: nobody else can
//	all others answered             the newest epoch of status, of what any of them
//	                                wrote under, and of what the cluster manager saw
//	all suspended                   that of the status: nobody grants while a cluster is hibernated
//	otherwise                       an instance that did not answer may have a newer one
func (c *Cluster) newestGrant() (was port.Volume, wrote bool, err error) {
	f, s := c.Facts, c.Status.Storage
	was = port.Volume{Claim: cmp.Or(s.Claim, c.Spec.Storage.Claim), Size: c.desiredSize(), Writer: s.Writer, Epoch: s.Epoch}
	if s.Size != nil {
		was.Size = s.Size.Value()
	}
	if top := f.Topology; f.known(factManager) && top.Writer != "" && top.Epoch > was.Epoch {
		was.Writer, was.Epoch = top.Writer, top.Epoch
	}
	var unasked []*port.Instance
	for n := range f.Instances {
		i := &f.Instances[n]
		if i.State == port.Leaving {
			continue
		}
		st, asked := f.Engines[i.Name]
		switch {
		case i.State == port.Suspended && c.hasSlept(): // nobody was granted anything since the status was written
		case !asked:
			unasked = append(unasked, i)
		case st.Wrote > was.Epoch, st.Wrote == was.Epoch && st.Wrote > 0 && was.Writer == "":
			was.Writer, was.Epoch, wrote = i.Name, st.Wrote, true
		case st.Wrote == was.Epoch && i.Name == was.Writer && st.Wrote > 0:
			wrote = true
		}
	}
	writes := func() bool {
		st, asked := f.Engines[was.Writer]
		return asked && st.Running && st.Role == port.Primary && st.Epoch == was.Epoch
	}
	if was.Epoch > 0 && !writes() && !c.forced() && (c.DeletedAt.IsZero() || c.keeps()) {
		for _, i := range unasked {
			if i.Name != was.Writer { // a newer epoch of the same instance would be its own, too
				return was, wrote, port.GrantLost.Errorf("the record of who may write is gone, and instance %s, which may have written last, cannot be asked: %s", i.Name, cmp.Or(i.Message, "its agent does not answer")).With("instance", i.Name)
			}
		}
	}
	if was.Epoch == 0 && (c.Status.State == string(Cloning) || machine.State(c.Status.PreviousState) == Cloning) {
		was.From = c.Spec.CloneFrom
	}
	return was, wrote, nil
}

// forced reports whether a person requested a rebuild from what is left, and so accepts the loss.
func (c *Cluster) forced() bool {
	for i := range c.Status.Requests {
		if r := &c.Status.Requests[i]; r.Kind == Rebuild && rebuildsCluster(r.Args) && !ended(r) {
			return true
		}
	}
	return false
}
