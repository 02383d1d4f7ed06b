package sharedstorage_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// replicationServer has what a test gives it, and counts who asks.
type replicationServer struct {
	databaseServer
	mu      sync.Mutex
	asked   int
	has     port.Replication
	results []port.StatementResult
	told    []string // statements
}

func (s *replicationServer) Replication(context.Context, port.Ref, []string, []string) (port.Replication, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	has := s.has
	has.Publications, has.Subscriptions = slices.Clone(has.Publications), slices.Clone(has.Subscriptions)
	return has, nil
}

func (s *replicationServer) Execute(ctx context.Context, id port.Ref, all []port.Statement) ([]port.StatementResult, error) {
	if all[0].Database == "" {
		return s.databaseServer.Execute(ctx, id, all)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range all {
		s.told = append(s.told, one.What)
	}
	if s.results != nil {
		return s.results, nil
	}
	return make([]port.StatementResult, len(all)), nil
}

// Publications and subscriptions are looked at once a minute and when the spec changes, and each ten seconds while
// rows are copied; each trouble of a subscription has its reason.
func TestSubscriptionsAreLookedAtWhenSomethingChanged(t *testing.T) {
	s := &replicationServer{}
	s.revision.Store("1")
	inHarness(t, setup{sim: times(), options: func(o *sharedstorage.Options) {
		s.Engine, o.Ports.Engine, o.Credentials = o.Ports.Engine, s, s
	}}, func(l *harness) {
		l.create("blue", nil)
		l.awaitRunning("blue", 10*time.Minute)
		looks := func(count int, every time.Duration) int {
			l.notify("blue")
			time.Sleep(every)
			s.mu.Lock()
			before := s.asked
			s.mu.Unlock()
			for range count {
				l.notify("blue")
				time.Sleep(every)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.asked - before
		}
		if n := looks(100, time.Second); n > 0 {
			t.Errorf("a cluster that declares nothing is asked %d times", n)
		}
		conditions := func() (publications, subscriptions string) {
			for kind, reason := range map[string]*string{declared.PublicationsCondition: &publications, declared.SubscriptionsCondition: &subscriptions} {
				if is := meta.FindStatusCondition(l.observe("blue").Status.Conditions, kind); is != nil {
					*reason = is.Reason
				}
			}
			return publications, subscriptions
		}
		is := port.Subscription{Name: "in", Database: "app", Publications: []string{"p"}, Enabled: true, Confirms: true, Running: true, Publisher: &port.Publisher{Slot: true, Lag: 3 << 20}}
		give := func(change func(*port.Subscription, *port.Publisher)) {
			one, at := is, *is.Publisher
			change(&one, &at)
			if one.Publisher != nil {
				one.Publisher = &at
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.has = port.Replication{Publications: []port.Publication{{Name: "out", Database: "app", AllTables: true, Operations: []string{"insert", "update", "delete", "truncate"}}}, Subscriptions: []port.Subscription{one}}
		}
		same := func(*port.Subscription, *port.Publisher) {}
		give(same)
		s.mu.Lock()
		s.results = []port.StatementResult{{State: "XX000", Message: "cannot be altered"}} // of the connection, which differs
		s.mu.Unlock()
		l.edit("blue", func(spec *v1alpha1.SharedStorageClusterSpec) {
			spec.Publications = []v1alpha1.PublicationSpec{{Name: "out", Database: "app", AllTables: true}}
			spec.Subscriptions = []v1alpha1.SubscriptionSpec{{Name: "in", Database: "app", Publications: []string{"p"}, From: &v1alpha1.PublisherSpec{Host: "other", User: "u"}}}
		})
		time.Sleep(5 * time.Minute) // wal_level is another one, so the engines restart
		if p, sub := conditions(); p != "AsWanted" || sub != "SubscriptionFailed" {
			t.Errorf("%s %s", p, sub)
		}
		sum := sha256.Sum256([]byte("host='other' port='5432' dbname='app' user='u' sslmode='prefer' connect_timeout='4'"))
		is.Connection = hex.EncodeToString(sum[:])
		give(same)
		time.Sleep(6 * time.Minute)
		if p, sub := conditions(); p != "AsWanted" || sub != "AsWanted" {
			t.Errorf("%s %s: %+v", p, sub, l.observe("blue").Status.Conditions)
		}
		if st := l.observe("blue").Status.Subscriptions; len(st) != 1 || st[0].State != "Streaming" || st[0].LagBytes == nil || *st[0].LagBytes != 3<<20 {
			t.Errorf("%+v", st)
		}
		if n := looks(300, time.Second); n < 4 || n > 6 {
			t.Errorf("in five minutes of passes each second: %d looks", n)
		}
		for _, c := range []struct {
			reason, state string
			change        func(*port.Subscription, *port.Publisher)
		}{
			{"PublisherUnreachable", "Streaming", func(_ *port.Subscription, at *port.Publisher) { at.Unreachable = "no route" }},
			{"SubscriptionSlotLost", "SlotLost", func(_ *port.Subscription, at *port.Publisher) { at.Slot = false }},
			{"SubscriptionFailed", "Streaming", func(_ *port.Subscription, at *port.Publisher) { at.Missing = []string{"p"} }},
			{"SubscriptionFailed", "Down", func(s *port.Subscription, _ *port.Publisher) { s.Running = false }},
			{"Copying", "Copying", func(s *port.Subscription, _ *port.Publisher) { s.Copying = 2 }},
			{"AsWanted", "Streaming", same},
		} {
			give(c.change)
			time.Sleep(6 * time.Minute) // no trouble waits longer for a look
			if _, sub := conditions(); sub != c.reason || l.observe("blue").Status.Subscriptions[0].State != c.state {
				t.Errorf("%s, not %s; %+v, not %s", sub, c.reason, l.observe("blue").Status.Subscriptions, c.state)
			}
			if n := looks(60, time.Second); n > 8 || c.reason == "Copying" && n < 5 {
				t.Errorf("%s: %d looks in a minute", c.reason, n)
			}
		}
		l.edit("blue", func(spec *v1alpha1.SharedStorageClusterSpec) { spec.Publications, spec.Subscriptions = nil, nil })
		time.Sleep(10 * time.Minute)
		if p, sub := conditions(); p+sub != "" || len(l.observe("blue").Status.Subscriptions) > 0 {
			t.Errorf("%s %s %v", p, sub, l.observe("blue").Status.Subscriptions)
		}
		if len(s.told) == 0 || slices.ContainsFunc(s.told, func(what string) bool { return what != "connection of subscription in of app" }) {
			t.Error(fmt.Sprint(s.told))
		}
	})
}
