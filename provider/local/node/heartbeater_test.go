package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// fakeHome is a server with scripted answers that logs the heartbeats.
type fakeHome struct {
	began   time.Time
	answers []func() (cluster.HelloAnswer, error) // the last one is repeated
	heard   []string
}

func (s *fakeHome) answer(_ context.Context, token string, _ cluster.Hello) (cluster.HelloAnswer, error) {
	s.heard = append(s.heard, fmt.Sprintf("%s %s", time.Since(s.began), token))
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return answer()
}

func answersWith(a cluster.HelloAnswer) func() (cluster.HelloAnswer, error) {
	return func() (cluster.HelloAnswer, error) { return a, nil }
}

func answersError(err error) func() (cluster.HelloAnswer, error) {
	return func() (cluster.HelloAnswer, error) { return cluster.HelloAnswer{}, err }
}

var (
	errDown   = errors.New("connection refused")
	errStrict = fmt.Errorf("%w: 401", errRefused)
)

// The first heartbeat uses the join token, later ones the credential; no answer of the
// server ends the heartbeats.
func TestGreeter(t *testing.T) {
	every := func(d time.Duration) cluster.HelloAnswer { return cluster.HelloAnswer{Every: d} }
	for name, c := range map[string]struct {
		credential string
		answers    []func() (cluster.HelloAnswer, error)
		want       []string
	}{
		"token, then credential": {
			answers: []func() (cluster.HelloAnswer, error){answersWith(cluster.HelloAnswer{Credential: "cred"}), answersWith(cluster.HelloAnswer{})},
			want:    []string{"0s token", "10s cred", "20s cred"},
		},
		"credential of the last life": {
			credential: "cred", answers: []func() (cluster.HelloAnswer, error){answersWith(every(30 * time.Second))},
			want: []string{"0s cred", "30s cred"},
		},
		"the server sets the interval, within limits": {
			credential: "cred", answers: []func() (cluster.HelloAnswer, error){answersWith(every(time.Hour)), answersWith(every(1))},
			want: []string{"0s cred", "1m0s cred", "1m0.05s cred"},
		},
		"the server is down: pauses double up to 15 s, and then it continues": {
			answers: []func() (cluster.HelloAnswer, error){
				answersError(errDown), answersError(errDown), answersError(errDown), answersError(errDown), answersError(errDown), answersError(errDown), answersError(errDown),
				answersWith(cluster.HelloAnswer{Credential: "cred"}), answersError(errDown), answersWith(cluster.HelloAnswer{}),
			},
			want: []string{"0s token", "1s token", "3s token", "7s token", "15s token", "30s token", "45s token", "1m0s token", "1m10s cred", "1m11s cred"},
		},
		"no credential in the answer: the token again": {
			answers: []func() (cluster.HelloAnswer, error){answersWith(cluster.HelloAnswer{})},
			want:    []string{"0s token", "10s token"},
		},
		"a refused credential: the token has its turn": {
			credential: "old", answers: []func() (cluster.HelloAnswer, error){answersError(errStrict), answersError(errStrict), answersError(errStrict), answersWith(cluster.HelloAnswer{Credential: "new"}), answersWith(cluster.HelloAnswer{})},
			want: []string{"0s old", "1s token", "3s old", "7s token", "17s new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				home := &fakeHome{began: time.Now(), answers: c.answers}
				ctx, cancel := context.WithCancel(t.Context())
				kept := c.credential
				g := &heartbeater{
					times: Times{}.filled(), token: "token", credential: c.credential, heartbeat: func() cluster.Hello { return cluster.Hello{} },
					onAnswer: func(cluster.HelloAnswer) {}, saveCredential: func(s string) error { kept = s; return nil }, log: quiet,
					send: func(ctx context.Context, token string, h cluster.Hello) (cluster.HelloAnswer, error) {
						if len(home.heard) == len(c.want)-1 {
							cancel()
						}
						return home.answer(ctx, token, h)
					},
				}
				g.run(ctx)
				if !slices.Equal(home.heard, c.want) {
					t.Errorf("heartbeats:\n%s\nwant:\n%s", strings.Join(home.heard, "\n"), strings.Join(c.want, "\n"))
				}
				if g.credential != kept {
					t.Errorf("it uses %q and has kept %q", g.credential, kept)
				}
			})
		})
	}
}

// A change triggers a heartbeat at once, and the log contains it once.
func TestGreeterBellAndLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		home := &fakeHome{began: time.Now(), answers: []func() (cluster.HelloAnswer, error){
			answersWith(cluster.HelloAnswer{}), answersWith(cluster.HelloAnswer{}), answersError(errDown), answersError(errDown), answersError(errDown), answersWith(cluster.HelloAnswer{}),
		}}
		wake := make(chan struct{}, 1)
		g := &heartbeater{
			times: Times{}.filled(), token: "token", heartbeat: func() cluster.Hello { return cluster.Hello{} }, onAnswer: func(cluster.HelloAnswer) {},
			send: home.answer, wake: wake, log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		time.AfterFunc(3*time.Second, func() { notify(wake) })
		g.run(ctx)
		if want := []string{"0s token", "3s token", "13s token", "14s token", "16s token", "20s token"}; !slices.Equal(home.heard, want) {
			t.Errorf("heartbeats at %v, want %v", home.heard, want)
		}
		if down, up := strings.Count(log.String(), "does not answer"), strings.Count(log.String(), "the server answers"); down != 1 || up != 2 {
			t.Errorf("the log:\n%s", &log)
		}
		if strings.Contains(log.String(), "token") {
			t.Errorf("the log contains the token:\n%s", &log)
		}
	})
}
