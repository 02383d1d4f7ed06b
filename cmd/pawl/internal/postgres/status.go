package postgres

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/view"
)

// Status is a cluster on one screen.
type Status struct {
	Cluster    string    `json:"cluster"` // namespace/name
	State      string    `json:"state"`
	Since      time.Time `json:"since,omitzero"`
	Durability string    `json:"durability,omitempty"`
	Class      string    `json:"class,omitempty"`
	Version    string    `json:"version,omitempty"` // of all instances; empty: they differ

	Writer    *Instance  `json:"writer"` // null: none takes writes
	Instances []Instance `json:"instances"`
	Readers   int32      `json:"readers"` // that are wanted

	WhyNot   []Finding                `json:"whyNot"` // what is not as it should be
	Progress string                   `json:"progress,omitempty"`
	Run      *v1alpha1.CurrentRun     `json:"run,omitempty"`
	Requests []v1alpha1.RequestStatus `json:"requests"` // that have not ended

	Manager v1alpha1.ManagerStatus  `json:"manager"`
	Poolers []v1alpha1.PoolerStatus `json:"poolers,omitempty"`
	Storage v1alpha1.StorageStatus  `json:"storage"`
	Size    string                  `json:"wantedSize,omitempty"` // of storage

	Databases     v1alpha1.DatabasesStatus      `json:"databases,omitzero"`
	Subscriptions []v1alpha1.SubscriptionStatus `json:"subscriptions,omitempty"`

	// What the writer says.
	Slots          []Slot   `json:"slots"`
	Archive        *Archive `json:"archive,omitempty"`
	Connections    int64    `json:"connections,omitempty"`
	MaxConnections int64    `json:"maxConnections,omitempty"`
	Unasked        string   `json:"unasked,omitempty"` // why the writer was not asked

	bad, moving bool
}

// Instance is one instance. LagBytes and LagSeconds are those of the writer's view when it was asked.
type Instance struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Role       string    `json:"role"`
	Health     string    `json:"health"`
	Since      time.Time `json:"since,omitzero"` // of the health
	Node       string    `json:"node,omitempty"`
	Address    string    `json:"address,omitempty"`
	Version    string    `json:"version,omitempty"`
	Streaming  string    `json:"streaming,omitempty"` // as pg_stat_replication has it
	Sync       string    `json:"sync,omitempty"`
	LagBytes   *int64    `json:"lagBytes,omitempty"`
	LagSeconds *float64  `json:"lagSeconds,omitempty"`
	Message    string    `json:"message,omitempty"`
}

// Slot is a replication slot of the writer.
type Slot struct {
	Name          string `json:"name"`
	Instance      string `json:"instance,omitempty"` // that uses it
	Type          string `json:"type"`
	Active        bool   `json:"active"`
	WAL           string `json:"wal"` // wal_status: reserved, extended, unreserved or lost
	RetainedBytes int64  `json:"retainedBytes"`
}

// Archive is how the writer archives its log.
type Archive struct {
	Mode         string     `json:"mode"` // archive_mode
	Archived     int64      `json:"archived"`
	Last         string     `json:"last,omitempty"`
	LastAt       *time.Time `json:"lastAt,omitempty"`
	Failed       int64      `json:"failed"`
	LastFailed   string     `json:"lastFailed,omitempty"`
	LastFailedAt *time.Time `json:"lastFailedAt,omitempty"`
}

// Finding is something that is not as it should be.
type Finding struct {
	What    string    `json:"what"` // a condition, an instance, a slot or the archive
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Remedy  string    `json:"remedy,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

func (a verbs) statusCommand() *cobra.Command {
	var watch bool
	cmd := a.verb("status CLUSTER", "Show a cluster on one screen: who writes, lag, slots, archive, and why not",
		"  pawl pg status orders\n  pawl pg status orders --watch\n  pawl pg status orders -o json", cobra.ExactArgs(1),
		func(ctx context.Context, _ *cobra.Command, c *cluster, _ []string) error {
			return a.status(ctx, c, watch)
		})
	cmd.Long = `Reads the object, and asks the writer for what only PostgreSQL knows: lag, slots, archive,
connections. Without an answer of the writer the rest is shown.

Exit code 0: all is as it should be. 3: something is under way. 4: something needs somebody,
and "Why not" says what, with the remedy.`
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on, and show what changes, until Ctrl-C or --timeout")
	return cmd
}

// statusEvery is the time between two looks at the writer.
const statusEvery = 2 * time.Second

func (a verbs) status(ctx context.Context, c *cluster, watch bool) error {
	var screen *live.Screen
	if watch && a.IsLive() {
		screen = live.Open(a.Out, a.Style(a.Out))
		defer screen.Close()
	}
	printed := ""
	for {
		s := c.look(ctx)
		switch {
		case !watch:
			if err := a.Emit(s, []string{s.Cluster}, func() string { return s.Text(c.now(), a.Style(a.Out)) }); err != nil {
				return err
			}
			return cli.End(s.Exit())
		case screen != nil:
			screen.Show(func(style view.Style) []string {
				return strings.Split(strings.TrimSuffix(s.Text(c.now(), style), "\n"), "\n")
			})
		default:
			if key := s.Text(time.Time{}, view.Style{}); key != printed { // without ages, which change by themselves
				printed = key
				if err := a.Emit(s, []string{s.Cluster}, func() string { return s.Text(c.now(), a.Style(a.Out)) + "\n" }); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return cli.End(s.Exit())
		case <-time.After(statusEvery):
		}
		if err := c.read(ctx); err != nil {
			return cli.WatchEnded(ctx, err)
		}
	}
}

// look reads the status of a cluster, and asks its writer.
func (c *cluster) look(ctx context.Context) Status {
	var live *replication
	unasked := "no instance takes writes"
	if writer, err := c.choose("", false); err == nil {
		var r replication
		if err := c.query(ctx, writer, replicationQuery, &r); err != nil {
			unasked = fault.Message(err)
		} else {
			live, unasked = &r, ""
		}
	}
	if c.status.State == string(sharedstorage.Hibernated) {
		unasked = ""
	}
	s := c.statusOf(live)
	s.Unasked = unasked
	return s
}

// statusOf joins what the object and the writer say. live nil: the writer was not asked.
func (c *cluster) statusOf(live *replication) Status {
	is := c.status.SharedStorageClusterStatus
	s := Status{
		Cluster: c.text(), State: cmp.Or(is.State, "Init"), Since: is.Since.UTC(), Durability: cmp.Or(c.spec.Durability, "strict"), Class: is.Class, Version: is.Version,
		Instances: []Instance{}, Readers: 2, WhyNot: []Finding{}, Run: is.Run, Requests: []v1alpha1.RequestStatus{}, Manager: is.Manager, Poolers: is.Poolers, Storage: is.Storage, Databases: is.Databases, Subscriptions: is.Subscriptions, Slots: []Slot{},
	}
	if c.spec.Readers != nil {
		s.Readers = *c.spec.Readers
	}
	if c.spec.Storage.Size != nil {
		s.Size = c.spec.Storage.Size.String()
	}
	for _, r := range is.Requests {
		if r.State == sharedstorage.Pending || r.State == sharedstorage.InWork {
			s.Requests = append(s.Requests, r)
		}
	}
	streams := map[string]stream{}
	if live != nil {
		s.Slots, s.Archive, s.Connections, s.MaxConnections = live.Slots, &live.Archive, live.Connections, live.MaxConnections
		for _, r := range live.Streams {
			streams[r.Instance] = r
		}
	}
	for _, i := range c.instances() {
		one := Instance{ID: i.id, Name: i.Name, Role: i.Role, Health: i.Health, Since: i.Since.UTC(), Node: i.Node, Version: i.Version, LagBytes: i.LagBytes, Message: i.Message}
		if i.Address != "" {
			one.Address = i.Address + ":" + strconv.Itoa(int(i.Port))
		}
		if r, ok := streams[i.Name]; ok {
			one.Streaming, one.Sync, one.LagBytes, one.LagSeconds = r.State, r.Sync, r.LagBytes, r.LagSeconds
		} else if live != nil && i.Role != string(port.Writer) {
			one.Streaming, one.LagBytes = "no", nil
		}
		s.Instances = append(s.Instances, one)
		if i.Role == string(port.Writer) && i.Health == healthy {
			s.Writer = &one
		}
	}
	s.find(is.Conditions)
	return s
}

// find collects what is not as it should be.
func (s *Status) find(conditions []metav1.Condition) {
	add := func(f Finding) { s.WhyNot = append(s.WhyNot, f) }
	if len(conditions) == 0 {
		add(Finding{What: "Ready", Reason: "NotServed", Message: "no operator has looked at the cluster yet", Remedy: "Start pawl operator, or pawl server with --shared-storage, and see whether it serves this namespace."})
	}
	held := meta.IsStatusConditionTrue(conditions, sharedstorage.InterruptedCondition)
	for _, c := range conditions {
		switch {
		case c.Type == sharedstorage.ProgressingCondition && held: // Interrupted says it all
			continue
		case c.Type == sharedstorage.ProgressingCondition && c.Status == metav1.ConditionTrue:
			s.moving, s.Progress = true, c.Message
			continue
		case c.Type != sharedstorage.InterruptedCondition && c.Reason == string(sharedstorage.Hibernated): // as it is wanted
			continue
		case c.Type == sharedstorage.ProgressingCondition && (c.Reason == "Rests" || c.Status == metav1.ConditionUnknown),
			c.Type == sharedstorage.InterruptedCondition && c.Status != metav1.ConditionTrue,
			c.Type != sharedstorage.InterruptedCondition && c.Type != sharedstorage.ProgressingCondition && c.Status == metav1.ConditionTrue:
			continue
		}
		f := Finding{What: c.Type, Reason: c.Reason, Message: c.Message, Remedy: remedies[c.Reason], Since: c.LastTransitionTime.UTC()}
		if why := condition.Fault(c); why != nil {
			f.Message, f.Remedy = why.Message, why.Remedy
		}
		add(f)
	}
	for _, slot := range s.Slots {
		if slot.WAL == "lost" {
			add(Finding{What: "slot " + slot.Name, Reason: "SlotLost", Message: "the log that its instance needs is gone", Remedy: "The instance is copied anew by itself; a slot of somebody else is dropped with SELECT pg_drop_replication_slot('" + slot.Name + "')."})
		}
	}
	if a := s.Archive; a != nil && a.LastFailedAt != nil && (a.LastAt == nil || a.LastFailedAt.After(*a.LastAt)) {
		add(Finding{What: "archive", Reason: "ArchiveFails", Message: a.LastFailed + " was not archived; " + strconv.FormatInt(a.Failed, 10) + " attempts have failed", Since: a.LastFailedAt.UTC(),
			Remedy: "See pawl pg logs --engine for what the command of the archive says; the log stays on the volume until it is archived."})
	}
	s.bad = len(s.WhyNot) > 0
}

// remedies are those of reasons that are no faults.
var remedies = map[string]string{
	"AwaitsWriter":        "See Ready: the rest waits for a writer.",
	"CommitsWait":         "Bring a reader back, or set durability to available until there is one.",
	"FailoverNotWanted":   "Set ha.enabled to true.",
	"FailoverOff":         "It is as ha.enabled says again once no run changes instances.",
	"FailoverPaused":      "Wait: it is switched on again when the change is done, and a minute after the last operator at the latest.",
	"ManagerStarting":     "Wait some seconds.",
	"NoHealthyReader":     "See the readers: one that stays failed for a minute is rebuilt by itself.",
	"NoManager":           "Wait: it is made last.",
	"NoReader":            "Set readers to 1 or more.",
	"NoReaderInSync":      "Wait until a reader has caught up; with little to write that takes seconds.",
	"NoVolume":            "Wait: it is made first.",
	"NoWriter":            "Wait: it is made first.",
	"NotAsked":            "Wait some seconds; if it stays, see the operator's log.",
	"OneNode":             "Add a node, or set ha.sameNode to true, which helps when the engine fails and not when the node does.",
	"ReadersMissing":      "See the readers above; pawl describe tells what the operator does about them.",
	"ReadersOnWriterNode": "Move a reader (annotation pawl.dev/migrate: ID|NODE), or set ha.sameNode to true.",
	"VolumeCloning":       "Wait for the copy.",
	"VolumeGrowing":       "Wait for its file system.",
	"VolumePending":       "See the claim: kubectl describe pvc.",
	"VolumeTerminating":   "Somebody deletes a claim that is in use: rebuild its reader, or switch the writer first.",
}

// Exit returns the exit code of status.
func (s Status) Exit() int {
	switch {
	case s.moving:
		return view.ExitActive
	case s.bad:
		return view.ExitRemedy
	}
	return view.ExitDone
}
