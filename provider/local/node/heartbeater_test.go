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
	answers []func() (cluster.HeartbeatAnswer, error) // the last one is repeated
	heard   []string
}

func (s *fakeHome) answer(_ context.Context, token string, _ cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
	s.heard = append(s.heard, fmt.Sprintf("%s %s", time.Since(s.began), token))
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return answer()
}

func answersWith(a cluster.HeartbeatAnswer) func() (cluster.HeartbeatAnswer, error) {
	return func() (cluster.HeartbeatAnswer, error) { return a, nil }
}

func answersError(err error) func() (cluster.HeartbeatAnswer, error) {
	return func() (cluster.HeartbeatAnswer, error) { return cluster.HeartbeatAnswer{}, err }
}

var (
	errDown   = errors.New("connection refused")
	errStrict = fmt.Errorf("%w: 401", errRefused)
)

// The first heartbeat uses the join token, later ones the credential; no answer of the
// server ends the heartbeats.
func TestHeartbeater(t *testing.T) {
	every := func(d time.Duration) cluster.HeartbeatAnswer { return cluster.HeartbeatAnswer{Every: d} }
	for name, c := range map[string]struct {
		credential string
		answers    []func() (cluster.HeartbeatAnswer, error)
		want       []string
	}{
		"token, then credential": {
			answers: []func() (cluster.HeartbeatAnswer, error){answersWith(cluster.HeartbeatAnswer{Credential: "cred"}), answersWith(cluster.HeartbeatAnswer{})},
			want:    []string{"0s token", "10s cred", "20s cred"},
		},
		"credential of the last life": {
			credential: "cred", answers: []func() (cluster.HeartbeatAnswer, error){answersWith(every(30 * time.Second))},
			want: []string{"0s cred", "30s cred"},
		},
		"the server sets the interval, within limits": {
			credential: "cred", answers: []func() (cluster.HeartbeatAnswer, error){answersWith(every(time.Hour)), answersWith(every(1))},
			want: []string{"0s cred", "1m0s cred", "1m0.05s cred"},
		},
		"the server is down: pauses double up to 15 s, and then it continues": {
			answers: []func() (cluster.HeartbeatAnswer, error){
				answersError(errDown), answersError(errDown), answersError(errDown), answersError(errDown), answersError(errDown), answersError(errDown), answersError(errDown),
				answersWith(cluster.HeartbeatAnswer{Credential: "cred"}), answersError(errDown), answersWith(cluster.HeartbeatAnswer{}),
			},
			want: []string{"0s token", "1s token", "3s token", "7s token", "15s token", "30s token", "45s token", "1m0s token", "1m10s cred", "1m11s cred"},
		},
		"no credential in the answer: the token again": {
			answers: []func() (cluster.HeartbeatAnswer, error){answersWith(cluster.HeartbeatAnswer{})},
			want:    []string{"0s token", "10s token"},
		},
		"a refused credential: the token has its turn": {
			credential: "old", answers: []func() (cluster.HeartbeatAnswer, error){answersError(errStrict), answersError(errStrict), answersError(errStrict), answersWith(cluster.HeartbeatAnswer{Credential: "new"}), answersWith(cluster.HeartbeatAnswer{})},
			want: []string{"0s old", "1s token", "3s old", "7s token", "17s new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &fakeHome{began: time.Now(), answers: c.answers}
				ctx, cancel := context.WithCancel(t.Context())
				kept := c.credential
				g := &heartbeater{
					times: Times{}.filled(), token: "token", credential: c.credential, heartbeat: func() cluster.Heartbeat { return cluster.Heartbeat{} },
					onAnswer: func(cluster.HeartbeatAnswer) {}, saveCredential: func(s string) error { kept = s; return nil }, log: quiet,
					send: func(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
						if len(server.heard) == len(c.want)-1 {
							cancel()
						}
						return server.answer(ctx, token, h)
					},
				}
				g.run(ctx)
				if !slices.Equal(server.heard, c.want) {
					t.Errorf("heartbeats:\n%s\nwant:\n%s", strings.Join(server.heard, "\n"), strings.Join(c.want, "\n"))
				}
				if g.credential != kept {
					t.Errorf("it uses %q and has kept %q", g.credential, kept)
				}
			})
		})
	}
}

// A change triggers a heartbeat at once, and the log contains it once.
func TestHeartbeaterWakeAndLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		server := &fakeHome{began: time.Now(), answers: []func() (cluster.HeartbeatAnswer, error){
			answersWith(cluster.HeartbeatAnswer{}), answersWith(cluster.HeartbeatAnswer{}), answersError(errDown), answersError(errDown), answersError(errDown), answersWith(cluster.HeartbeatAnswer{}),
		}}
		wake := make(chan struct{}, 1)
		g := &heartbeater{
			times: Times{}.filled(), token: "token", heartbeat: func() cluster.Heartbeat { return cluster.Heartbeat{} }, onAnswer: func(cluster.HeartbeatAnswer) {},
			send: server.answer, wake: wake, log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		time.AfterFunc(3*time.Second, func() { notify(wake) })
		g.run(ctx)
		if want := []string{"0s token", "3s token", "13s token", "14s token", "16s token", "20s token"}; !slices.Equal(server.heard, want) {
			t.Errorf("heartbeats at %v, want %v", server.heard, want)
		}
		if down, up := strings.Count(log.String(), "does not answer"), strings.Count(log.String(), "the server answers"); down != 1 || up != 2 {
			t.Errorf("the log:\n%s", &log)
		}
		if strings.Contains(log.String(), "token") {
			t.Errorf("the log contains the token:\n%s", &log)
		}
	})
}
