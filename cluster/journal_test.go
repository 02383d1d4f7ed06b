package cluster

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const settle = 90 * time.Second

var (
	foundIt  = Lookup{Found: &Resource{Kind: VM, ID: "v1", Identity: "i1"}}
	foundAlt = Lookup{Found: &Resource{Kind: VM, ID: "v1", Identity: "another"}}
	provenly = Lookup{Gone: true}
	failed   = Lookup{Err: errors.New("timeout")}
	jobOpen  = Lookup{Open: true}
	nobody   = Lookup{}
)

func row(phase Phase, change ...func(*JournalRow)) *JournalRow {
	r := &JournalRow{Kind: VM, Name: "n", Key: "k", Phase: phase, Origin: OriginCreated, IntentAt: noon}
	if phase != Intent {
		r.ProviderID, r.Identity = "v1", "i1"
	}
	for _, c := range change {
		c(r)
	}
	return r
}

func withJob(r *JournalRow)   { r.JobID = "j" }
func isGiven(r *JournalRow)   { r.Origin = OriginGiven }
func withoutID(r *JournalRow) { r.ProviderID, r.Identity = "", "" }

// DecideCreate: the table for a row whose resource should exist.
func TestDecideCreate(t *testing.T) {
	for _, c := range []struct {
		name  string
		row   *JournalRow
		l     Lookup
		after time.Duration
		live  bool
		want  JournalAction
	}{
		{"intent, after a crash: look", row(Intent), nobody, 0, true, LookUpFirst},
		{"intent, the job exists: follow it", row(Intent), jobOpen, 0, true, FollowJob},
		{"intent, the job is known by its name", row(Intent, withJob), nobody, 0, true, FollowJob},
		{"intent, the resource exists: take it", row(Intent), foundIt, 0, true, StoreIDs},
		{"intent, the resource exists, the run is over: take it too", row(Intent), foundIt, 0, false, StoreIDs},
		{"intent, nothing found, settled: call again", row(Intent), provenly, settle, true, SendCreate},
		{"intent, nothing found, not settled", row(Intent), provenly, settle - 1, true, TryLater},
		{"intent, nothing found, the run is over", row(Intent), provenly, settle, false, MarkNeverCreated},
		{"intent, nothing found, the run is over, not settled", row(Intent), provenly, settle - 1, false, TryLater},
		{"any, the lookup failed", row(Intent), failed, time.Hour, true, TryLater},
		{"accepted, the lookup failed", row(Accepted), failed, time.Hour, true, TryLater},
		{"accepted, job open: poll", row(Accepted, withJob), nobody, 0, true, FollowJob},
		{"accepted, the job is open still", row(Accepted), jobOpen, 0, true, FollowJob},
		{"accepted: read it back", row(Accepted), nobody, 0, true, LookUpFirst},
		{"accepted, there", row(Accepted), foundIt, 0, true, Confirm},
		{"accepted, not seen yet", row(Accepted), provenly, settle - 1, true, TryLater},
		{"accepted, gone", row(Accepted), provenly, settle, true, Lost},
		{"accepted, another resource has the id", row(Accepted), foundAlt, 0, true, Lost},
		{"present", row(Present), nobody, 0, true, NoAction},
		{"present, there", row(Present), foundIt, 0, true, NoAction},
		{"present, gone", row(Present), provenly, 0, true, Lost},
		{"given", row(Present, isGiven), nobody, 0, true, NoAction},
		{"closing: not created while it is deleted", row(Closing), foundIt, 0, true, TryLater},
		{"gone", row(Gone), nobody, 0, true, Lost},
		{"never created", row(NeverCreated), nobody, 0, true, Lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := DecideCreate(c.row, c.l, noon.Add(c.after), settle, c.live); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// DecideDelete: the table for a row whose resource should not exist.
func TestDecideDelete(t *testing.T) {
	for _, c := range []struct {
		name  string
		row   *JournalRow
		l     Lookup
		after time.Duration
		want  JournalAction
	}{
		{"intent: look", row(Intent), nobody, 0, LookUpFirst},
		{"intent, the job exists: followed to its end", row(Intent), jobOpen, 0, FollowJob},
		{"intent, there: take its id first", row(Intent), foundIt, 0, StoreIDs},
		{"intent, nothing, settled: no delete call", row(Intent), provenly, settle, MarkNeverCreated},
		{"intent, nothing, not settled", row(Intent), provenly, settle - 1, TryLater},
		{"any, the lookup failed", row(Intent), failed, time.Hour, TryLater},
		{"accepted, job open", row(Accepted, withJob), nobody, 0, FollowJob},
		{"accepted, without id", row(Accepted, withoutID), foundIt, 0, StoreIDs},
		{"accepted: written before the call", row(Accepted), nobody, 0, MarkClosing},
		{"present: written before the call", row(Present), foundIt, 0, MarkClosing},
		{"closing: looked up before the call", row(Closing), nobody, 0, LookUpFirst},
		{"closing, job open: poll", row(Closing, withJob), nobody, 0, FollowJob},
		{"closing, still there, no job: delete again", row(Closing), foundIt, 0, SendDelete},
		{"closing, gone", row(Closing), provenly, 0, MarkGone},
		{"closing, another resource has the id: it is not touched", row(Closing), foundAlt, 0, MarkGone},
		{"closing, the lookup failed", row(Closing), failed, time.Hour, TryLater},
		{"closing, without id, nothing there", row(Closing, withoutID), provenly, settle, MarkNeverCreated},
		{"leaked is tried on", row(Leaked), foundIt, 0, SendDelete},
		{"leaked, gone at last", row(Leaked), provenly, 0, MarkGone},
		{"closing, a source NAT: its network takes it along", row(Closing), Lookup{Found: &Resource{Kind: Address, ID: "v1", Identity: "i1", SourceNAT: true}}, 0, MarkGiven},
		{"given is never deleted", row(Present, isGiven), foundIt, 0, NoAction},
		{"gone", row(Gone), foundIt, 0, NoAction},
		{"forgotten", row(Forgotten), foundIt, 0, NoAction},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := DecideDelete(c.row, c.l, noon.Add(c.after), settle); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A create call is sent only for an intent, no row is closed without proof, and a
// given resource is never deleted.
func TestJournalNeverGuesses(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		j := &JournalRow{Phase: rapid.SampledFrom([]Phase{Intent, Accepted, Present, Closing, Gone, NeverCreated, Leaked, Forgotten}).Draw(r, "phase"),
			Origin: rapid.SampledFrom([]Origin{OriginCreated, OriginAdopted, OriginGiven}).Draw(r, "origin"), IntentAt: noon}
		j.ProviderID = rapid.SampledFrom([]string{"", "v1"}).Draw(r, "id")
		j.JobID = rapid.SampledFrom([]string{"", "j"}).Draw(r, "job")
		l := rapid.SampledFrom([]Lookup{nobody, foundIt, foundAlt, provenly, failed, jobOpen}).Draw(r, "lookup")
		now := noon.Add(time.Duration(rapid.Int64Range(0, int64(2*settle)).Draw(r, "after")))
		live := rapid.Bool().Draw(r, "live")
		creation, deletion := DecideCreate(j, l, now, settle, live), DecideDelete(j, l, now, settle)
		if creation == SendCreate && (j.Phase != Intent || !l.Gone || !live || now.Sub(noon) < settle) {
			r.Fatalf("a create call for %+v, %+v", j, l)
		}
		if deletion == SendDelete && (l.Found == nil || j.ProviderID != l.Found.ID || j.Origin == OriginGiven) {
			r.Fatalf("a delete call for %+v, %+v", j, l)
		}
		if j.Origin == OriginGiven && deletion != NoAction {
			r.Fatalf("a given resource: %s", deletion)
		}
		if (deletion == MarkGone || deletion == MarkNeverCreated || creation == MarkNeverCreated) && !l.Gone && l.Found == nil {
			r.Fatalf("closed without proof: %s, %s", creation, deletion)
		}
		if l.Err != nil && j.Phase.Open() && (creation != TryLater || deletion != TryLater && j.Origin != OriginGiven) {
			r.Fatalf("a lookup that failed proves nothing: %s, %s", creation, deletion)
		}
	})
}

// The proof that a resource belongs to this installation.
func TestOurs(t *testing.T) {
	known := &Cluster{UUID: "1f2e3d4c", Name: "blue"}
	existing := func(change ...func(*Resource)) Resource {
		r := Resource{Kind: VM, ID: "v1", Identity: "i1", Name: NodeName(known, Worker, 1), Tags: map[string]string{TagInstallation: "inst", TagCluster: known.UUID}}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	untagged := func(r *Resource) { r.Tags = nil }
	for _, c := range []struct {
		name  string
		row   *JournalRow
		r     Resource
		known *Cluster
		want  bool
	}{
		{"id and identity of our own answer", row(Present), existing(untagged), nil, true},
		{"the identity differs", row(Present), existing(untagged, func(r *Resource) { r.Identity = "i2" }), nil, false},
		{"the id differs", row(Present), existing(untagged, func(r *Resource) { r.ID = "v2" }), nil, false},
		{"the kind differs", row(Present), existing(untagged, func(r *Resource) { r.Kind = Network }), nil, false},
		{"a row without id proves nothing", row(Intent), existing(untagged, func(r *Resource) { r.ID, r.Identity = "", "" }), nil, false},
		{"given", row(Present, isGiven), existing(), known, false},
		{"tags, name and a known cluster", nil, existing(), known, true},
		{"the cluster is unknown here", nil, existing(), nil, false},
		{"another installation", nil, existing(func(r *Resource) { r.Tags[TagInstallation] = "other" }), known, false},
		{"another cluster", nil, existing(func(r *Resource) { r.Tags[TagCluster] = "other" }), known, false},
		{"a name that we never gave", nil, existing(func(r *Resource) { r.Name = "blue-worker1" }), known, false},
		{"no tags", nil, existing(untagged), known, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Ours(c.row, c.r, "inst", c.known); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if Ours(nil, Resource{Tags: map[string]string{TagCluster: known.UUID}, Name: NodeName(known, Worker, 1)}, "", known) {
		t.Error("an installation without id owns everything")
	}
}

func TestLookupOf(t *testing.T) {
	if l := LookupOf(Resource{ID: "x"}, nil); l.Found == nil || l.Found.ID != "x" {
		t.Error("found")
	}
	if l := LookupOf(Resource{}, errors.Join(errors.New("by id"), ErrGone)); !l.Gone || l.Err != nil {
		t.Error("gone")
	}
	if l := LookupOf(Resource{}, CredentialsRefused.Errorf("401")); l.Gone || l.Err == nil {
		t.Error("refused credentials prove nothing")
	}
}
