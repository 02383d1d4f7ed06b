package kube

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

func wantedParameters(size string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: polar.Namespace, Name: polar.Name + "-user-params"}, Data: map[string]string{"work_mem": size}}
}

// have reports whether all engines run with a parameter.
func (s *mpdFixture) have(size string) func(*mpd.MPDCluster) bool {
	ref := port.Ref{Namespace: polar.Namespace, Name: polar.Name}
	return func(c *mpd.MPDCluster) bool {
		all := s.sim.Instances(ref)
		for _, i := range all {
			if s.sim.Parameters(ref, i.Name)["work_mem"] != size {
				return false
			}
		}
		return len(all) == 2 && c.Status.ClusterStatus == "Running"
	}
}

// The ConfigMap of an MPDCluster has its parameters: they apply to a new cluster, at once with
// flushParams, and otherwise later.
func TestUserParameters(t *testing.T) {
	withMPD(t, func(s *mpdFixture) {
		s.passes(10*time.Minute, s.have("1MB"))
		s.must(s.client.Update(t.Context(), wantedParameters("2MB")))
		s.annotate("flushParams", "T")
		s.passes(time.Minute, s.have("2MB"))
		s.must(s.client.Update(t.Context(), wantedParameters("3MB")))
		s.passes(parametersAge+time.Minute, s.have("3MB"))
	}, polarObject(func(*mpd.MPDCluster) {}), wantedParameters("1MB"))
}

// They are not read in each pass of a cluster at rest.
func TestUserParametersAreNotAskedForAtRest(t *testing.T) {
	withMPD(t, func(s *mpdFixture) {
		ref := port.Ref{Namespace: polar.Namespace, Name: polar.Name}
		load := func() map[string]string {
			c, err := s.server.store.Load(t.Context(), ref)
			s.must(err)
			return c.Spec.Parameters
		}
		for end := time.Now().Add(time.Hour); time.Now().Before(end); time.Sleep(15 * time.Second) {
			load()["work_mem"] = "mine" // load returns a copy
		}
		if most := int(time.Hour / parametersAge); s.asked == 0 || s.asked > most {
			t.Errorf("they were asked for %d times in an hour, want at most %d", s.asked, most)
		}
		for what, change := range map[string]func(){
			"an edit of the object": func() { s.annotate("note", "x") },
			"a new object of this name": func() {
				s.must(s.client.Delete(t.Context(), s.observe()))
				if _, err := s.server.store.Load(t.Context(), ref); err == nil {
					t.Error("it is there still")
				}
				s.must(s.client.Create(t.Context(), polarObject(func(c *mpd.MPDCluster) { c.UID = "v" })))
			},
		} {
			before := s.asked
			change()
			if got := load()["work_mem"]; got != "1MB" || s.asked != before+1 {
				t.Errorf("after %s they are asked for %d times: %q", what, s.asked-before, got)
			}
		}
		s.must(s.client.Delete(t.Context(), wantedParameters("")))
		s.annotate("note", "y")
		if got := load(); len(got) > 0 {
			t.Errorf("without a ConfigMap they are %v", got)
		}
	}, polarObject(func(*mpd.MPDCluster) {}), wantedParameters("1MB"))
}

func (s *mpdFixture) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
