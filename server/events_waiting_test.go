package server

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/workflow"
)

// waitingFor reads up to the next waiting event.
func (e *eventReader) waitingFor() (w WaitingEvent) {
	e.t.Helper()
	all := e.until("waiting", "")
	if err := json.Unmarshal([]byte(all[len(all)-1].data), &w); err != nil {
		e.t.Fatal(err)
	}
	return w
}

// Streams report what a run waits for, since when and until when: the stream of a run
// also the end of the wait, the stream of everything only its beginning.
func TestStreamsReportWaits(t *testing.T) {
	h := newFixture(t, nil)
	all := h.listen("/v1/events?type=waiting", "")
	r := h.start("Waits", "demo/default/c1")
	one := h.listen("/v1/events?type=waiting,run&run="+r.ID, "")
	read := h.until(r.ID, workflow.Waiting)
	for name, e := range map[string]*eventReader{"all": all, "one": one} {
		got := e.waitingFor()
		if got.ID != r.ID || got.Waiting == nil || got.Waiting.Step == "" || got.Waiting.For != "signal caught-up" || got.Waiting.Since.IsZero() {
			t.Errorf("%s: %+v %+v", name, got, got.Waiting)
		}
		if read.Waiting == nil || got.Waiting == nil || read.Waiting.For != got.Waiting.For || !read.Waiting.Until.Equal(got.Waiting.Until) {
			t.Errorf("%s: the run says %+v, the stream %+v", name, read.Waiting, got.Waiting)
		}
	}
	h.do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"caught-up"}`)
	if got := one.waitingFor(); got.Waiting != nil || got.ID != r.ID {
		t.Errorf("it waits no more: %+v", got.Waiting)
	}
}

// The stream of a cluster reports at each change what its run waits for and that its
// provider cannot be read, although neither is an event of its history.
func TestClusterStreamReportsWaits(t *testing.T) {
	w := newClustersServer(t, nil)
	owner, token := w.addAccount("ada")
	c := addCluster(t, w.records, "blue", ownerOf(owner))
	e := w.listen("/v1/clusters/"+c.UUID+"/events?type=waiting", "", as(token)...)
	unseen := cluster.Notice{Provider: "none", Task: "sync", Code: "PROVIDER_UNREACHABLE", Text: "connection refused", Since: time.Now().UTC()}
	if err := w.records.PutNotice(t.Context(), unseen); err != nil {
		t.Fatal(err)
	}
	got := e.waitingFor()
	if got.Cluster != c.UUID || got.Waiting != nil || got.Unseen == nil || got.Unseen.Text != "connection refused" {
		t.Errorf("%+v", got)
	}
}

// The stream of a run continues after the run is removed, and reports that nothing waits any more.
func TestStreamOfARemovedRun(t *testing.T) {
	for _, types := range []string{"run", "run,waiting"} {
		t.Run(types, func(t *testing.T) {
			h := newFixture(t, nil)
			r := h.start("Waits", "demo/default/c1")
			h.until(r.ID, workflow.Waiting)
			e := h.listen("/v1/events?type="+types+"&run="+r.ID, "")
			h.do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"caught-up"}`)
			h.until(r.ID, workflow.Succeeded)
			e.until("run", "Succeeded")
			if err := h.store.Remove(t.Context(), []string{r.ID}); err != nil {
				t.Fatal(err)
			}
			other := h.start("Waits", "demo/default/c2") // its wait causes the next poll
			h.until(other.ID, workflow.Waiting)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for e.lines.Scan() {
				}
			}()
			select {
			case <-ended:
				t.Error("the stream has ended")
			case <-time.After(1500 * time.Millisecond): // longer than a poll
			}
			e.close()
			<-ended
		})
	}
}
