package sharedstorage_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// databaseServer has users and databases, and counts who asks for them.
type databaseServer struct {
	port.Engine
	looks, reads atomic.Int32
	revision     atomic.Value
	users        []port.User
	databases    []port.Database
}

var verifier = regexp.MustCompile(`SCRAM-SHA-256[^']*`)

func (s *databaseServer) Databases(_ context.Context, _ port.Ref, _ []string) (port.Databases, error) {
	s.looks.Add(1)
	return port.Databases{Users: slices.Clone(s.users), Databases: slices.Clone(s.databases)}, nil
}

func (s *databaseServer) Execute(_ context.Context, _ port.Ref, all []port.Statement) ([]port.StatementResult, error) {
	for _, one := range all {
		kind, name, _ := strings.Cut(strings.TrimPrefix(one.What, "create "), " ")
		switch kind {
		case "user":
			s.users = append(s.users, port.User{Name: name, Login: true, ConnectionLimit: -1, Verifier: verifier.FindString(one.SQL)})
		case "database":
			s.databases = append(s.databases, port.Database{Name: name, Owner: name})
		}
	}
	return make([]port.StatementResult, len(all)), nil
}

func (s *databaseServer) Ensure(context.Context, port.Ref, declared.Login) (declared.Credential, error) {
	s.reads.Add(1)
	return declared.Credential{Password: "secret", Where: "a file"}, nil
}

func (s *databaseServer) Revision(context.Context, port.Ref, string, *v1alpha1.SecretSource) string {
	text, _ := s.revision.Load().(string)
	return text
}

func (s *databaseServer) Remove(context.Context, port.Ref, string) error { return nil }

// A cluster at rest is asked for its users once a minute, however often a pass looks at it, and
// at once when the spec or a password changes.
func TestUsersAreLookedAtWhenSomethingChanged(t *testing.T) {
	s := &databaseServer{}
	s.revision.Store("1")
	inHarness(t, setup{sim: times(), options: func(o *sharedstorage.Options) {
		s.Engine, o.Ports.Engine, o.Credentials = o.Ports.Engine, s, s
	}}, func(l *harness) {
		l.create("blue", nil)
		l.awaitRunning("blue", 10*time.Minute)
		if len(s.users) != 1 || len(s.databases) != 1 {
			t.Fatalf("%v %v", s.users, s.databases)
		}
		passes := func(count int, every time.Duration) (looks, reads int32) {
			l.notify("blue")
			time.Sleep(every)
			looks, reads = s.looks.Load(), s.reads.Load()
			for range count {
				l.notify("blue")
				time.Sleep(every)
			}
			return s.looks.Load() - looks, s.reads.Load() - reads
		}
		time.Sleep(5 * time.Minute)
		if looks, reads := passes(300, time.Second); looks < 4 || looks > 6 || reads != looks {
			t.Errorf("in five minutes of passes each second: %d looks, %d reads of a password", looks, reads)
		}
		for what, change := range map[string]func(){
			"a password": func() { s.revision.Store("2") },
			"the spec": func() {
				l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Users = []v1alpha1.UserSpec{{Name: "app"}} })
			},
		} {
			passes(1, 100*time.Millisecond)
			before := s.looks.Load()
			change()
			if passes(1, 100*time.Millisecond); s.looks.Load() != before+1 {
				t.Errorf("%s changed: %d looks", what, s.looks.Load()-before)
			}
		}
	})
}
