package declared

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a cluster with a server that has what a test gives it, and counts what it is asked. Its time is virtual.
type fixture struct {
	port.Engine
	t      *testing.T
	r      *Reconciler
	now    time.Time
	c      Cluster
	events []string

	databases   port.Databases
	replication port.Replication
	err         error                            // of each question
	results     map[string]port.StatementResult  // by what they do
	execute     func(all []port.Statement) error // before the results; nil: nothing
	passwords   map[string]string                // by key of the Secret
	revision    string                           // of all passwords
	count       map[string]int                   // "databases", "publisher NAME", "secret NAME", "execute WHAT"
	calls       [][]string                       // of Execute
}

func (f *fixture) Databases(context.Context, port.Ref, []string) (port.Databases, error) {
	f.count["databases"]++
	return f.databases, f.err
}

func (f *fixture) Replication(_ context.Context, _ port.Ref, _, subscriptions []string) (port.Replication, error) {
	f.count["replication"]++
	for _, name := range subscriptions {
		f.count["publisher "+name]++
	}
	return f.replication, f.err
}

func (f *fixture) Execute(_ context.Context, _ port.Ref, all []port.Statement) (results []port.StatementResult, err error) {
	var call []string
	for _, s := range all {
		f.count["execute "+s.What]++
		call, results = append(call, s.What), append(results, f.results[s.What])
	}
	f.calls = append(f.calls, call)
	if f.execute != nil {
		err = f.execute(all)
	}
	return results, err
}

func (f *fixture) Ensure(context.Context, port.Ref, Login) (Credential, error) {
	return Credential{Password: "secret", Where: "a file"}, nil
}

func (f *fixture) Revision(context.Context, port.Ref, string, *v1alpha1.SecretSource) string {
	return f.revision
}

func (f *fixture) Remove(context.Context, port.Ref, string) error { return nil }

func newFixture(t *testing.T, spec v1alpha1.SharedStorageClusterSpec) *fixture {
	f := &fixture{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), count: map[string]int{}, passwords: map[string]string{}, revision: "1",
		c: Cluster{Ref: port.Ref{Namespace: "shop", Name: "blue", UID: "u"}, Generation: 1, Writer: "blue-1", Spec: &spec, Status: &v1alpha1.SharedStorageClusterStatus{}}}
	f.r = New(Options{Engine: f, Credentials: f, Logger: slog.New(slog.DiscardHandler), Secrets: func(_ context.Context, _ string, from v1alpha1.SecretSource) (string, error) {
		f.count["secret "+from.File]++
		if text, ok := f.passwords[from.File]; ok {
			return text, nil
		}
		return "", errors.New("there is no Secret")
	}})
	return f
}

// pass makes one pass, and a second goes by.
func (f *fixture) pass() *Report {
	f.t.Helper()
	rep := f.r.Reconcile(f.t.Context(), f.c, f.now)
	condition.Set(&f.c.Status.Conditions, f.c.Generation, f.now, rep.Conditions...)
	rep.Fill(f.c.Status)
	for _, e := range rep.Events {
		f.events = append(f.events, e.Reason)
	}
	f.now = f.now.Add(time.Second)
	return rep
}

// passes makes one pass a second, and returns what was asked in them.
func (f *fixture) passes(count int) map[string]int {
	f.t.Helper()
	before := maps.Clone(f.count)
	for range count {
		f.pass()
	}
	asked := map[string]int{}
	for what, n := range f.count {
		if n > before[what] {
			asked[what] = n - before[what]
		}
	}
	return asked
}

func (f *fixture) reason(kind string) string {
	if is := meta.FindStatusCondition(f.c.Status.Conditions, kind); is != nil {
		return is.Reason
	}
	return ""
}

func file(name string) *v1alpha1.SecretSource { return &v1alpha1.SecretSource{File: name} }

// subscribed returns a subscription to other as a server has it.
func subscribed(name string, slot bool) port.Subscription {
	from := source{Host: "other", Port: 5432, Database: "app", User: "u", SSLMode: "prefer"}
	return port.Subscription{Name: name, Database: "app", Connection: sha(from.Connection()), Publications: []string{"p"}, Enabled: true, Confirms: true, Running: true,
		Publisher: &port.Publisher{Slot: slot, Lag: 5 << 20}}
}

func subscription(name string) v1alpha1.SubscriptionSpec {
	return v1alpha1.SubscriptionSpec{Name: name, Database: "app", Publications: []string{"p"}, From: &v1alpha1.PublisherSpec{Host: "other", User: "u"}}
}

// Troubles that only a person ends are looked at ever less: after 15 s, 30 s and so on up to five minutes. The other
// objects are looked at once a minute, all stays told, and a change is looked at in the next pass.
func TestTroublesAreLookedAtEverLess(t *testing.T) {
	t.Parallel()
	f := newFixture(t, v1alpha1.SharedStorageClusterSpec{
		Users:         []v1alpha1.UserSpec{{Name: "app", Password: file("app")}, {Name: "old", Ensure: absent}, {Name: "good", Password: file("good")}},
		Subscriptions: []v1alpha1.SubscriptionSpec{subscription("lost"), subscription("good")},
	})
	f.passwords["good"] = "s3cret"
	f.databases = port.Databases{Users: []port.User{{Name: "app", Login: true, ConnectionLimit: -1}, {Name: "old"}, {Name: "good", Login: true, ConnectionLimit: -1, Verifier: verifier("s3cret", []byte("salt"), iterations)}}}
	f.results = map[string]port.StatementResult{"drop user old": {State: "2BP01", Message: "objects depend on it"}}
	f.replication.Subscriptions = []port.Subscription{subscribed("lost", false), subscribed("good", true)}
	f.c.Spec.Subscriptions[0].From.Password, f.passwords["lost"] = file("lost"), "pa55"
	f.replication.Subscriptions[0].Connection = sha(source{Host: "other", Port: 5432, Database: "app", User: "u", Password: "pa55", SSLMode: "prefer"}.Connection())

	asked := f.passes(1800) // at 0, 15, 45, 105, 225, 465, 765, 1065, 1365 and 1665 s
	for _, what := range []string{"publisher lost", "secret app", "execute drop user old"} {
		if asked[what] != 10 {
			t.Errorf("in half an hour of passes each second: %s %d times", what, asked[what])
		}
	}
	for _, what := range []string{"publisher good", "secret good"} {
		if asked[what] < 30 || asked[what] > 40 {
			t.Errorf("in half an hour of passes each second: %s %d times", what, asked[what])
		}
	}
	if got := []string{f.reason(DatabasesCondition), f.reason(SubscriptionsCondition)}; !slices.Equal(got, []string{"PasswordMissing", "SubscriptionSlotLost"}) {
		t.Error(got)
	}
	if text := meta.FindStatusCondition(f.c.Status.Conditions, DatabasesCondition).Message; !strings.Contains(text, "user app: there is no Secret") || !strings.Contains(text, "drop user old: objects depend on it") {
		t.Error(text)
	}
	if s := f.c.Status.Subscriptions; len(s) != 2 || s[0].State != subscriptionLost || s[1].State != subscriptionStreams || s[1].LagBytes == nil {
		t.Errorf("%+v", s)
	}
	if !slices.Equal(f.events, []string{"PasswordMissing", "SubscriptionSlotLost"}) {
		t.Errorf("events: %v", f.events)
	}

	f.passwords["app"], f.revision = "n3w", "2"
	f.results = nil
	f.replication.Subscriptions[0].Publisher.Slot = true
	f.databases.Users[0].Verifier = verifier("n3w", []byte("salt"), iterations)
	if asked := f.passes(1); asked["publisher lost"] != 1 || asked["secret app"] != 1 {
		t.Errorf("a password has changed: %v", asked)
	}
	if f.reason(SubscriptionsCondition) != "AsWanted" || f.reason(DatabasesCondition) != "AsWanted" {
		t.Errorf("%+v", f.c.Status.Conditions)
	}
	f.replication.Subscriptions[0].Publisher.Slot = false
	if asked := f.passes(90); asked["publisher lost"] < 2 || asked["publisher lost"] > 3 { // a new trouble begins at 15 s
		t.Errorf("a new trouble: %v", asked)
	}
	f.c.Generation++
	if asked := f.passes(1); asked["publisher lost"] != 1 {
		t.Errorf("the spec has changed: %v", asked)
	}
	f.c.Writer = "blue-2"
	if asked := f.passes(1); asked["publisher lost"] != 1 {
		t.Errorf("the writer has changed: %v", asked)
	}
	f.r.Forget("shop", "blue")
	if asked := f.passes(1); asked["publisher lost"] != 1 {
		t.Errorf("the cluster was forgotten: %v", asked)
	}
}

// The time begins anew when an object has another kind of problem.
func TestAnotherProblemBeginsAnew(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lost, away := []problem{{err: port.SubscriptionSlotLost.Errorf("a")}}, []problem{{err: port.PublisherUnreachable.Errorf("a")}}
	var r retry
	for n, c := range []struct {
		problems []problem
		seconds  int
	}{{lost, 15}, {lost, 30}, {away, 15}, {[]problem{{err: port.PublisherUnreachable.Errorf("b")}}, 30}, {away, 60}, {away, 120}, {away, 240}, {away, 300}, {away, 300}, {append(away, lost...), 15}} {
		if r = r.again(c.problems, now, 15*time.Second); r.delay != time.Duration(c.seconds)*time.Second || !r.until.Equal(now.Add(r.delay)) {
			t.Errorf("%d: %s, not %ds", n, r.delay, c.seconds)
		}
	}
}

// What is under way is looked at every ten seconds, beside a trouble too.
func TestWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, v1alpha1.SharedStorageClusterSpec{Subscriptions: []v1alpha1.SubscriptionSpec{subscription("copies"), subscription("lost")}})
	f.replication.Subscriptions = []port.Subscription{subscribed("copies", true), subscribed("lost", true)}
	f.replication.Subscriptions[0].Copying = 2
	if asked := f.passes(600); asked["publisher copies"] != 60 || f.reason(SubscriptionsCondition) != "Copying" {
		t.Errorf("%v %s", asked, f.reason(SubscriptionsCondition))
	}
	f.replication.Subscriptions[1].Publisher.Slot = false
	if asked := f.passes(600); asked["publisher copies"] < 60 || asked["publisher lost"] > 10 || f.reason(SubscriptionsCondition) != "SubscriptionSlotLost" {
		t.Errorf("%v %s", asked, f.reason(SubscriptionsCondition))
	}
	if rep := f.pass(); rep.Next <= 0 || rep.Next > 10*time.Second {
		t.Errorf("the next look is in %s", rep.Next)
	}
}

// A server that does not answer for a moment is asked in each pass, one that answers with an error ever less; what was
// known of it stays.
func TestAServerThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, v1alpha1.SharedStorageClusterSpec{Users: []v1alpha1.UserSpec{{Name: "app", Login: new(false)}}})
	f.databases.Users = []port.User{{Name: "app", ConnectionLimit: -1}}
	f.passes(1)
	f.now = f.now.Add(time.Minute)
	for err, want := range map[error]int{port.WriterUnhealthy.Errorf("it starts"): 60, errors.New("database app refuses connections"): 3} {
		f.err = err
		f.c.Generation++
		if asked := f.passes(60); asked["databases"] != want || f.reason(DatabasesCondition) != "AsWanted" {
			t.Errorf("%v: %v %s", err, asked, f.reason(DatabasesCondition))
		}
	}
	f.err = nil
	f.c.Generation++
	if rep := f.pass(); len(rep.Conditions) != 1 || rep.Next != 0 {
		t.Errorf("%+v", rep)
	}
}

// Statements that wait for another server are executed by themselves, after the others. One that goes on is a problem
// of its subscription only.
func TestRemoteStatementsAreExecutedByThemselves(t *testing.T) {
	t.Parallel()
	f := newFixture(t, v1alpha1.SharedStorageClusterSpec{Publications: []v1alpha1.PublicationSpec{{Name: "out", Database: "app", AllTables: true}}, Subscriptions: []v1alpha1.SubscriptionSpec{subscription("in")}})
	f.databases = port.Databases{Users: []port.User{{Name: "app", Login: true, ConnectionLimit: -1, Verifier: verifier("secret", []byte("salt"), iterations)}}, Databases: []port.Database{{Name: "app", Owner: "app"}}}
	f.execute = func(all []port.Statement) error {
		if all[0].Remote {
			return errors.New("it takes long")
		}
		f.replication.Publications = []port.Publication{{Name: "out", Database: "app", AllTables: true, Operations: operations}}
		return nil
	}
	f.pass()
	if len(f.calls) != 2 || !slices.Equal(f.calls[0], []string{"create publication out of app"}) || !slices.Equal(f.calls[1], []string{"create subscription in of app"}) {
		t.Errorf("%q", f.calls)
	}
	if p, s := f.reason(PublicationsCondition), f.reason(SubscriptionsCondition); p != "AsWanted" || s != "SubscriptionFailed" {
		t.Errorf("%s %s", p, s)
	}
	f.execute = nil
	f.replication.Subscriptions = []port.Subscription{subscribed("in", true)}
	if f.passes(16); f.reason(SubscriptionsCondition) != "AsWanted" {
		t.Errorf("%+v", f.c.Status.Conditions)
	}
}

// Without a writer, what was told is not known any more; conditions of what is not declared go.
func TestConditionsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, v1alpha1.SharedStorageClusterSpec{Subscriptions: []v1alpha1.SubscriptionSpec{subscription("in")}})
	f.replication.Subscriptions = []port.Subscription{subscribed("in", true)}
	if all := Unasked(f.c.Status); len(all) > 0 {
		t.Errorf("before the first look: %+v", all)
	}
	f.pass()
	if all := Unasked(f.c.Status); len(all) != 2 || all[0].Reason != "NoWriter" {
		t.Errorf("%+v", all)
	}
	f.c.Spec.Subscriptions = nil
	if Prune(f.c.Spec, f.c.Status); f.reason(SubscriptionsCondition) != "" || f.reason(DatabasesCondition) == "" || len(f.c.Status.Subscriptions) > 0 {
		t.Errorf("%+v", f.c.Status)
	}
}
