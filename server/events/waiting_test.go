package events_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/server/events"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// waitingFor reads up to the next waiting event.
func waitingFor(e *servertest.EventReader) (w events.WaitingEvent) {
	e.T.Helper()
	all := e.Until("waiting", "")
	if err := json.Unmarshal([]byte(all[len(all)-1].Data), &w); err != nil {
		e.T.Fatal(err)
	}
	return w
}

// Streams report what a run waits for, since when and until when: the stream of a run
// also the end of the wait, the stream of everything only its beginning.
func TestStreamsReportWaits(t *testing.T) {
	h := servertest.New(t, nil)
	all := h.Listen("/v1/events?type=waiting", "")
	r := h.Start("Waits", "demo/default/c1")
	one := h.Listen("/v1/events?type=waiting,run&run="+r.ID, "")
	read := h.Until(r.ID, runtype.Waiting)
	for name, e := range map[string]*servertest.EventReader{"all": all, "one": one} {
		got := waitingFor(e)
		if got.ID != r.ID || got.Waiting == nil || got.Waiting.Step == "" || got.Waiting.For != "signal caught-up" || got.Waiting.Since.IsZero() {
			t.Errorf("%s: %+v %+v", name, got, got.Waiting)
		}
		if read.Waiting == nil || got.Waiting == nil || read.Waiting.For != got.Waiting.For || !read.Waiting.Until.Equal(got.Waiting.Until) {
			t.Errorf("%s: the run says %+v, the stream %+v", name, read.Waiting, got.Waiting)
		}
	}
	h.Do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"caught-up"}`)
	if got := waitingFor(one); got.Waiting != nil || got.ID != r.ID {
		t.Errorf("it waits no more: %+v", got.Waiting)
	}
}

// The stream of a cluster reports at each change what its run waits for and that its
// provider cannot be read, although neither is an event of its history.
func TestClusterStreamReportsWaits(t *testing.T) {
	w := newClustersServer(t, nil)
	owner, token := w.addAccount("ada")
	c := addCluster(t, w.records, "blue", ownerOf(owner))
	e := w.Listen("/v1/clusters/"+c.UUID+"/events?type=waiting", "", as(token)...)
	unseen := cluster.Notice{Provider: "none", Task: "sync", Code: "PROVIDER_UNREACHABLE", Text: "connection refused", Since: time.Now().UTC()}
	if err := w.records.PutNotice(t.Context(), unseen); err != nil {
		t.Fatal(err)
	}
	got := waitingFor(e)
	if got.Cluster != c.UUID || got.Waiting != nil || got.Unseen == nil || got.Unseen.Text != "connection refused" {
		t.Errorf("%+v", got)
	}
}

// The stream of a run continues after the run is removed, and reports that nothing waits any more.
func TestStreamOfARemovedRun(t *testing.T) {
	for _, types := range []string{"run", "run,waiting"} {
		t.Run(types, func(t *testing.T) {
			h := servertest.New(t, nil)
			r := h.Start("Waits", "demo/default/c1")
			h.Until(r.ID, runtype.Waiting)
			e := h.Listen("/v1/events?type="+types+"&run="+r.ID, "")
			h.Do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"caught-up"}`)
			h.Until(r.ID, runtype.Succeeded)
			e.Until("run", "Succeeded")
			if err := h.Store.Remove(t.Context(), []string{r.ID}); err != nil {
				t.Fatal(err)
			}
			other := h.Start("Waits", "demo/default/c2") // its wait causes the next poll
			h.Until(other.ID, runtype.Waiting)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for e.Lines.Scan() {
				}
			}()
			select {
			case <-ended:
				t.Error("the stream has ended")
			case <-time.After(1500 * time.Millisecond): // longer than a poll
			}
			e.Close()
			<-ended
		})
	}
}
