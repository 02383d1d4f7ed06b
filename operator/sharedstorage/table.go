package sharedstorage

import (
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The states of a cluster.
const (
	Init                  machine.State = "Init"
	Cloning               machine.State = "Cloning"
	Restoring             machine.State = "Restoring"
	Creating              machine.State = "Creating"
	Running               machine.State = "Running"
	Recreating            machine.State = "Recreating"
	RebuildingReader      machine.State = "RebuildingReader"
	Switching             machine.State = "Switching"
	Restarting            machine.State = "Restarting"
	Migrating             machine.State = "Migrating"
	ChangingSpecification machine.State = "ChangingSpecification"
	Upgrading             machine.State = "Upgrading"
	ModifyingParameters   machine.State = "ModifyingParameters"
	ExtendingStorage      machine.State = "ExtendingStorage"
	Locking               machine.State = "Locking"
	ScalingOut            machine.State = "ScalingOut"
	ScalingIn             machine.State = "ScalingIn"
	Interrupted           machine.State = machine.Interrupted
	Deleting              machine.State = "Deleting"
	Deleted               machine.State = "Deleted"
)

type (
	transition = machine.Transition[*Cluster]
	stateSpec  = machine.StateSpec[*Cluster]
)

// Table returns the state machine: the reference lifecycle of a database cluster, plus
// RebuildingReader, ScalingIn and ExtendingStorage.
func (o *Operator) Table() machine.Table[*Cluster] {
	works := func(flow string, then machine.State) stateSpec { return stateSpec{Flow: flow, Then: then} }
	rebuild := transition{Event: "rebuild-cluster", To: Recreating, Why: "a rebuild was asked for, or every instance has failed", When: o.allFailed, Params: o.rebuildCluster}
	return machine.Table[*Cluster]{
		Name: "sharedstorage", Kind: Kind, Initial: Init, Generation: desiredGeneration,
		Any: []transition{{Event: "delete", To: Deleting, Why: "deletion was asked for", When: deleted, Params: plain, Cancel: machine.Drop}},
		States: map[machine.State]stateSpec{
			Init: {On: []transition{
				{Event: "clone", To: Cloning, Why: "a cluster to copy is named", When: whenSpecValid(func(c *Cluster) bool { return c.Spec.CloneFrom != "" }), Params: o.creation, Purpose: desiredCreation},
				{Event: "create", To: Creating, Why: "the cluster is to be made", When: whenSpecValid(func(c *Cluster) bool { return c.Spec.CloneFrom == "" && c.Spec.RestoreFrom == nil }), Params: o.creation, Purpose: desiredCreation},
				{Event: "restore", To: Restoring, Why: "a backup to begin with is named", When: whenSpecValid(func(c *Cluster) bool { return c.Spec.RestoreFrom != nil }), Params: o.creation, Purpose: desiredCreation},
			}},
			Cloning:   works("CloneSharedStorageCluster", Running),
			Restoring: works("RestoreSharedStorageCluster", Running),
			Creating:  works("CreateSharedStorageCluster", Running),
			Running:   {On: o.fromRunning(rebuild)},

			Recreating:            works("RebuildCluster", Running),
			RebuildingReader:      works("RebuildReader", Running),
			Switching:             works("SwitchWriter", Running),
			Restarting:            works("RestartCluster", Running),
			Migrating:             works("MigrateReader", Running),
			ChangingSpecification: works("ModifyClass", Running),
			Upgrading:             works("UpgradeMinorVersion", Running),
			ModifyingParameters:   works("FlushParameters", Running),
			ExtendingStorage:      works("ExtendStorage", Running),
			Locking:               works("LockTopology", ScalingOut),
			ScalingOut:            works("AddReaders", Running),
			ScalingIn:             works("RemoveReader", Running),

			Hibernating: works("HibernateCluster", Hibernated),
			Hibernated:  {On: o.fromHibernated()},
			Waking:      works("WakeCluster", Running),

			Interrupted: {On: []transition{rebuild}},
			Deleting:    {Flow: "DeleteCluster", Then: Deleted, Else: Deleting, Abort: Interrupted},
			Deleted:     {},
		},
	}
}

// fromRunning lists the transitions from Running in the order of section 3 of the specification:
// the first that holds wins.
func (o *Operator) fromRunning(rebuild transition) []transition {
	return []transition{
		// 1: the whole cluster
		rebuild,
		// the end of all instances, and their return after a run that was dropped
		o.hibernate(),
		o.wake(),
		// 2: a reader that has failed
		{Event: "rebuild-reader", To: RebuildingReader, Why: "a reader has failed, or its rebuild was asked for", When: o.readerFailed, Params: o.rebuildReader},
		// 3: the oldest request
		{Event: "switch-writer", To: Switching, Why: "another writer was asked for", When: requestPending(SwitchWriter, ""), Params: forRequest},
		{Event: "restart-cluster", To: Restarting, Why: "a restart was asked for", When: requestPending(Restart, "cluster"), Params: o.restart},
		{Event: "restart-instance", To: Restarting, Flow: "RestartInstance", Why: "a restart was asked for", When: requestPending(Restart, "instance"), Params: o.restart},
		{Event: "migrate-reader", To: Migrating, Why: "a move was asked for", When: requestPending(Migrate, "reader"), Params: forRequest},
		{Event: "migrate-writer", To: Migrating, Flow: "MigrateWriter", Why: "a move was asked for", When: requestPending(Migrate, "writer"), Params: forRequest},
		{Event: "remove-reader", To: ScalingIn, Why: "the removal of a reader was asked for", When: requestPending(RemoveReader, ""), Params: forRequest},
		// 4 to 9: changes of the spec
		{Event: "class", To: ChangingSpecification, Why: "another class is wanted", When: whenStable(classDiffers, ofClass, ofQuota), Params: o.resize, Purpose: desiredClass},
		{Event: "version", To: Upgrading, Why: "another version is wanted", When: whenStable(versionDiffers, ofVersion, ofQuota), Params: o.upgrade, Purpose: desiredVersion},
		{Event: "template", To: ChangingSpecification, Why: "an image, the class, the placement, the pods or the ports were edited", When: whenStable(templateDiffers, ofClass, ofVersion), Params: o.reshape, Purpose: desiredTemplate},
		{Event: "parameters", To: ModifyingParameters, Why: "other parameters are wanted", When: parametersDiffer, Params: o.flush, Purpose: desiredParameters},
		{Event: "storage", To: ExtendingStorage, Why: "a larger volume is wanted", When: storageSmall, Params: o.extend, Purpose: desiredVolume},
		{Event: "scale-out", To: Locking, Why: "more readers are wanted", When: whenStable(func(c *Cluster) bool { return len(c.Facts.readers()) < c.desiredReaders() }, ofReaders, ofQuota), Params: o.scaleOut, Purpose: desiredReaderSpec},
		{Event: "scale-in", To: ScalingIn, Why: "fewer readers are wanted", When: whenStable(func(c *Cluster) bool { return len(c.Facts.readers()) > c.desiredReaders() }, ofReaders), Params: scaleIn, Purpose: desiredReaderSpec},
	}
}

func deleted(c *Cluster) (bool, error) { return !c.DeletedAt.IsZero(), nil }

func plain(*Cluster) (any, error) { return Input{Readers: []string{}}, nil }

// whenSpecValid limits a condition to specs that can be carried out, as a whole or in these parts.
// It does not hold while the classes are unknown, because then nobody can tell.
func whenSpecValid(holds func(c *Cluster) bool, parts ...string) func(c *Cluster) (bool, error) {
	return func(c *Cluster) (bool, error) {
		return c.Facts.known(factClasses) && c.refusal(parts...) == nil && holds(c), nil
	}
}

// whenStable limits a condition to times when the writer is healthy and all instances are known.
func whenStable(holds func(c *Cluster) bool, parts ...string) func(c *Cluster) (bool, error) {
	return whenSpecValid(func(c *Cluster) bool {
		return c.Facts.known(factInstances) && c.Facts.writer() != nil && holds(c)
	}, parts...)
}

// failedFor reports whether an instance has failed for Options.FailedAfter.
func (o *Operator) failedFor(c *Cluster, i *port.Instance) bool {
	health, _ := c.Facts.health(i)
	since, _ := c.failedSince(i, health)
	return health == Failed && c.Facts.At.Sub(since) >= o.options.FailedAfter
}

// failedSince returns the time since when an instance has its health, from the status of former
// passes.
func (c *Cluster) failedSince(i *port.Instance, health Health) (since time.Time, before bool) {
	if was, ok := c.Status.Instances[c.Facts.key(i)]; ok && was.Name == i.Name && was.Health == string(health) {
		return was.Since.Time, true
	}
	return c.Facts.At, false
}

func (o *Operator) allFailed(c *Cluster) (bool, error) {
	if c.oldestRebuild(true) != nil {
		return c.Facts.known(factInstances), nil
	}
	if !c.Facts.known(factInstances) || c.Facts.writer() != nil || c.Facts.Volume.Writer == "" {
		return false, nil // nothing was ever written, or the facts do not tell
	}
	if pos, err := positionOf(c); err != nil || pos.Held && (pos.Previous == Recreating || pos.Previous == Creating || pos.Previous == Cloning || pos.Previous == Restoring || sleeps(pos)) {
		return false, err // the failed run waits for a remedy
	}
	n := 0
	for i := range c.Facts.Instances {
		in := &c.Facts.Instances[i]
		if in.State == port.Leaving || in.Type == port.Temporary {
			continue
		}
		n++
		if !o.failedFor(c, in) {
			return false, nil
		}
	}
	if n == 0 {
		pos, _ := positionOf(c)
		return pos.State == Running, nil
	}
	// On a full volume no engine can start, a new one included.
	return c.Facts.known(factVolume) && !c.Facts.full(), nil
}

// full reports whether the volume is full.
func (f *Facts) full() bool {
	for _, st := range f.Engines {
		if st.Code == string(port.StorageFull.Code) {
			return true
		}
	}
	return false
}

func (o *Operator) readerFailed(c *Cluster) (bool, error) {
	id, _ := o.faultyReader(c)
	return id != "" && c.Facts.writer() != nil && c.Refused == nil, nil
}

// faultyReader returns the reader to rebuild, and the request for it if there is one.
func (o *Operator) faultyReader(c *Cluster) (id, request string) {
	if !c.Facts.known(factInstances) {
		return "", ""
	}
	if r := c.oldestRebuild(false); r != nil {
		return r.Args, r.ID
	}
	for _, i := range c.Facts.readers() {
		if o.failedFor(c, i) || o.emptyFor(c, i) {
			return i.ID, ""
		}
	}
	return "", ""
}

// emptyFor reports whether an instance has been without data for Options.FailedAfter. At rest no
// run will fill it: its run was dropped. A surplus one is removed instead of rebuilt.
func (o *Operator) emptyFor(c *Cluster, i *port.Instance) bool {
	if len(c.Facts.readers()) > c.desiredReaders() || c.oldest(RemoveReader) != nil {
		return false
	}
	st, asked := c.Facts.Engines[i.Name]
	health, _ := c.Facts.health(i)
	since, _ := c.failedSince(i, health)
	return i.State == port.Up && asked && !st.Installed && c.Facts.At.Sub(since) >= o.options.FailedAfter
}

func classDiffers(c *Cluster) bool {
	return c.Facts.any(func(i *port.Instance) bool { return i.Class.Name != c.className() })
}

func versionDiffers(c *Cluster) bool {
	want := c.Spec.Engine.Version
	return want != "" && c.Facts.any(func(i *port.Instance) bool { return i.Version != want })
}

// any reports whether the predicate holds for the writer or a reader.
func (f *Facts) any(holds func(i *port.Instance) bool) bool {
	if leader := f.leader(); leader != nil && holds(leader) {
		return true
	}
	for _, i := range f.readers() {
		if holds(i) {
			return true
		}
	}
	return false
}

func storageSmall(c *Cluster) (bool, error) {
	if c.oldest(ExtendStorage) != nil {
		return c.Facts.known(factVolume), nil
	}
	return whenSpecValid(func(c *Cluster) bool {
		return c.Facts.known(factVolume) && c.Facts.Volume.Size > 0 && c.desiredSize() > c.Facts.Volume.Size
	}, ofSize)(c)
}

// creation assigns places to the writer and the readers.
func (o *Operator) creation(c *Cluster) (any, error) {
	class, _ := c.Facts.class(c.className())
	next := max(c.Status.NextID, 1)
	in := Input{Class: class, Version: c.Spec.Engine.Version, Source: c.Spec.CloneFrom, Size: c.desiredSize(), ID: strconv.FormatInt(next, 10), Readers: []string{}}
	if c.Facts.Volume.Writer != "" { // an earlier creation was given up: the new one adopts its instances
		next = c.nextPlace() - 1
		if leader := c.Facts.leader(); leader != nil {
			in.ID = leader.ID
		}
		in.Readers = c.Facts.places(func(*port.Instance) bool { return true })
		in.Readers = in.Readers[:min(len(in.Readers), c.desiredReaders())]
	}
	for len(in.Readers) < c.desiredReaders() {
		next++
		in.Readers = append(in.Readers, strconv.FormatInt(next, 10))
	}
	in.Next = next + 1
	return in, nil
}

// resize lists the readers that have another class; the flow recreates the writer last.
func (o *Operator) resize(c *Cluster) (any, error) {
	class, _ := c.Facts.class(c.className())
	return c.rolling(Input{Class: class}, func(i *port.Instance) bool { return i.Class.Name != class.Name || c.stale(i) }), nil
}

func (o *Operator) upgrade(c *Cluster) (any, error) {
	want := c.Spec.Engine.Version
	return c.rolling(Input{Version: want}, func(i *port.Instance) bool { return i.Version != want || c.stale(i) }), nil
}

func (f *Facts) places(of func(i *port.Instance) bool) []string {
	ids := []string{}
	for _, i := range f.readers() {
		if of(i) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

func (o *Operator) flush(c *Cluster) (any, error) {
	in := Input{Readers: []string{}}
	if r := c.oldest(FlushParameters); r != nil {
		in.Request = r.ID
	}
	return in, nil
}

func (o *Operator) extend(c *Cluster) (any, error) {
	in := Input{Size: max(c.desiredSize(), c.Facts.Volume.Size), Readers: []string{}}
	if r := c.oldest(ExtendStorage); r != nil {
		in.Request = r.ID
	}
	return in, nil
}

// scaleOut assigns places to new readers, above all that were ever used.
func (o *Operator) scaleOut(c *Cluster) (any, error) {
	in := Input{Readers: []string{}, Next: c.nextPlace()}
	for range c.desiredReaders() - len(c.Facts.readers()) {
		in.Readers = append(in.Readers, strconv.FormatInt(in.Next, 10))
		in.Next++
	}
	return in, nil
}

// nextPlace returns the lowest number that was never used for a place.
func (c *Cluster) nextPlace() int64 {
	next := max(c.Status.NextID, 1)
	for _, i := range c.Facts.Instances {
		if n, err := strconv.ParseInt(i.ID, 10, 64); err == nil {
			next = max(next, n+1)
		}
	}
	return next
}

// scaleIn removes the newest reader.
func scaleIn(c *Cluster) (any, error) {
	readers := c.Facts.readers()
	return Input{ID: readers[len(readers)-1].ID, Readers: []string{}}, nil
}

func (o *Operator) rebuildReader(c *Cluster) (any, error) {
	id, request := o.faultyReader(c)
	return Input{ID: id, Request: request, Readers: []string{}}, nil
}

// rebuildCluster assigns the readers their places again.
func (o *Operator) rebuildCluster(c *Cluster) (any, error) {
	class, ok := c.Facts.class(c.className())
	if leader := c.Facts.leader(); !ok && leader != nil {
		class = leader.Class
	}
	in := Input{Class: class, Version: c.Spec.Engine.Version, Readers: []string{}, Next: c.nextPlace()}
	if r := c.oldestRebuild(true); r != nil {
		in.Request, in.Forced = r.ID, true
	}
	for range c.desiredReaders() {
		in.Readers = append(in.Readers, strconv.FormatInt(in.Next, 10))
		in.Next++
	}
	in.ID = strconv.FormatInt(in.Next, 10) // place of the writer, if no old instance survives
	in.Next++
	return in, nil
}

func (o *Operator) restart(c *Cluster) (any, error) {
	r := c.oldest(oldestFirst...)
	in := Input{Request: r.ID, Readers: c.Facts.places(func(*port.Instance) bool { return true }), Started: map[string]time.Time{}}
	if r.Args != "cluster" && !meansCluster(r.Args) {
		in.ID = r.Args
	}
	for name, st := range c.Facts.Engines {
		in.Started[name] = st.Started
	}
	return in, nil
}
