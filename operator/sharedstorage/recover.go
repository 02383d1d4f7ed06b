package sharedstorage

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// volumeRecordLost reports a record of the volume that was there, and is gone or older than it
// was. No instance is made before it, and what a deletion has released is not lost.
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

// restore makes the record of the volume anew if it was lost: from status, and from
// what the instances say that may know of a newer grant. Where that is not certain
// the volume is Unknown, with GRANT_LOST.
func (o *Operator) restore(ctx context.Context, c *Cluster) {
	if !c.volumeRecordLost() {
		return
	}
	was, wrote, err := c.newestGrant()
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, 2*o.options.CallTimeout)
		defer cancel()
		var got port.Volume
		err = guarded(func() error {
			got, err = o.options.Ports.Storage.Restore(limited, c.Ref, was, wrote)
			return err
		})
		if err == nil {
			c.Facts.Volume = got
			o.emit(c, Event{Warning: true, Reason: "GrantRestored", Message: fmt.Sprintf("the record of who may write was gone, and is made anew: %s, epoch %d", cmp.Or(was.Writer, "nobody"), was.Epoch)})
			return
		}
	}
	if fault.Of(err) != port.GrantLost {
		err = port.GrantLost.Errorf("the record of who may write is gone, and is not made anew: %w", err)
	}
	c.Facts.Unknown[factVolume] = err
}

// newestGrant judges who had the newest grant. wrote: this one wrote under it.
//
//	an instance that writes now     it holds the newest lease: nobody else can
//	all others are asked            the newest epoch of status, of what any of them
//	                                wrote under, and of what the cluster manager saw
//	else                            the one that is not asked may have a newer one
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
			if i.Name != was.Writer { // whose newer epoch would be its own too
				return was, wrote, port.GrantLost.Errorf("the record of who may write is gone, and instance %s, which may have written last, cannot be asked: %s", i.Name, cmp.Or(i.Message, "its agent does not answer")).With("instance", i.Name)
			}
		}
	}
	if was.Epoch == 0 && (c.Status.State == string(Cloning) || machine.State(c.Status.PreviousState) == Cloning) {
		was.From = c.Spec.CloneFrom
	}
	return was, wrote, nil
}

// forced reports that a person has asked for a rebuild of the cluster from what is
// left, and accepts what is lost by it.
func (c *Cluster) forced() bool {
	for i := range c.Status.Requests {
		if r := &c.Status.Requests[i]; r.Kind == Rebuild && rebuildsCluster(r.Args) && !ended(r) {
			return true
		}
	}
	return false
}
