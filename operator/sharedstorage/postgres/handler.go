package postgres

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// maxBody is the limit for the body of a call, in bytes.
const maxBody = 1 << 20

// handler is the HTTP handler of the agent. What probes and Prometheus ask needs no token.
func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, map[string]string{"name": a.name}) })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", a.metrics())
	handle := func(pattern string, do http.HandlerFunc) {
		mux.Handle(pattern, transport.Guard(a.tls, guarded(a.token.keys, do)))
	}
	handle("GET /v1/status", answer(func(ctx context.Context, _ struct{}) (AgentStatus, error) { return a.Status(ctx) }))
	handle("POST /v1/install", answer(a.callInstall))
	handle("POST /v1/start", answer(a.callStart))
	handle("POST /v1/stop", answer(a.callStop))
	handle("POST /v1/promote", answer(a.callPromote))
	handle("POST /v1/follow", answer(a.callFollow))
	handle("POST /v1/hold", answer(a.callHold))
	handle("POST /v1/apply", answer(a.callApply))
	handle("POST /v1/members", answer(a.callMembers))
	handle("POST /v1/confirm", answer(func(_ context.Context, q failsafe.Question) (failsafe.Answer, error) { return a.lease.Confirm(q), nil }))
	handle("POST /v1/archive", answer(a.callArchive))
	handle("POST /v1/backup", answer(a.callBackup))
	handle("GET /v1/backups", answer(a.callBackups))
	handle("POST /v1/verify", answer(a.callVerify))
	handle("POST /v1/databases", answer(a.callDatabases))
	handle("POST /v1/execute", answer(a.callExecute))
	handle("POST /v1/logical", answer(a.callReplication))
	return mux
}

// readyz is for probes: the engine answers, and has the role of ?role=. A follower is ready once it
// has streamed, and stays so while the writer is away, because it still answers what it has; the
// cluster manager takes one away from clients that does not stream from a writer that is there.
func (a *Agent) readyz(w http.ResponseWriter, r *http.Request) {
	s, err := a.Status(r.Context())
	role := port.Role(r.URL.Query().Get("role"))
	a.mu.Lock()
	streamed := a.live.streamed
	a.mu.Unlock()
	switch {
	case err != nil, !s.Ready, role != "" && s.Role != role, role == "" && s.Role == port.Follower && !streamed:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	writeJSON(w, map[string]any{"ready": s.Ready, "role": s.Role})
}

// guarded requires one of the tokens. The compared hashes have one length, so the time of the
// comparison reveals nothing.
func guarded(tokens func() []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got, same := sha256.Sum256([]byte(shown)), 0
		for _, token := range tokens() {
			want := sha256.Sum256([]byte(token))
			same |= subtle.ConstantTimeCompare(got[:], want[:])
		}
		if !ok || same != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write(mustJSON(problem{Message: "the token of the cluster is needed"})) // the caller went away
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answer returns the handler of a call.
func answer[In, Out any](do func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil && len(body) > 0 {
			err = json.Unmarshal(body, &in)
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(mustJSON(problem{Message: err.Error()})) // the caller went away
			return
		}
		out, err := do(r.Context(), in)
		if err != nil {
			writeProblem(w, err)
			return
		}
		writeJSON(w, out)
	}
}

type nothing struct{}

// Status returns the state of the engine, or the control data if it does not run.
func (a *Agent) Status(ctx context.Context) (AgentStatus, error) {
	engine := a.engine()
	running := engine.Running()
	installed := a.srv.installed()
	var s engineState
	var queryErr error
	var data controlData
	switch {
	case running:
		s, queryErr = a.queryState(ctx)
	case installed:
		data, queryErr = a.srv.control(ctx)
	}
	epoch, writing := a.lease.Writing()
	archive := a.repository()          // before the file is read: callArchive removes what another archive lacks, then sets the repository
	dropped, at := a.archive.dropped() // after the engine was asked: a later one is not in LastAt
	a.mu.Lock()
	defer a.mu.Unlock()
	st := AgentStatus{Name: a.name, Node: a.cfg.Node, Wanted: a.rec.Run, Ahead: a.rec.Ahead, Members: a.rec.Members.Version, Job: a.live.job}
	st.Installed = installed
	st.Running, st.Version, st.Lag = running, a.version, -1
	st.Archive, st.TLS, st.Identity = a.archive.observed(a.rec.Archive), a.tls.Certificate() != nil, a.tls.Identity()
	if archive != nil && archive.Hash() == st.Archive.Repository {
		st.Archive.Dropped, st.Archive.DroppedAt = dropped, at
	}
	st.Parameters, st.Wrote = port.Hash(a.parameters(a.rec)), a.rec.Epoch
	if err := a.live.fault; err != nil {
		st.Code, st.Message = string(fault.Of(err).Code), fault.Message(err)
	}
	if a.rec.Upstream != nil {
		st.Upstream = a.rec.Upstream.Name
	}
	switch {
	case running && queryErr != nil:
		if st.Message == "" {
			st.Message = queryErr.Error()
		}
	case running:
		st.Ready, st.Position, st.Timeline, st.Restart, st.Started = true, s.Position, s.Timeline, s.Restart, s.Started
		st.Role = port.Primary
		if s.Recovery {
			st.Role, st.Received = port.Follower, max(s.Received, s.Position)
			st.Timeline = max(s.Timeline, a.rec.Timeline)
			st.Streaming = s.Streaming && a.rec.Upstream != nil && s.Source == a.rec.Upstream.address()
			if st.Streaming {
				a.live.streamed = true
				st.Lag = int64(max(s.SourceEnd, s.Position) - s.Position)
			}
			st.Held = a.rec.Hold && !s.Receiver && a.live.config == a.configuration(a.rec, true)
		} else {
			st.Lag, st.Upstream = 0, ""
			st.Ready = slices.ContainsFunc(a.secret.keys(), func(key string) bool { return a.rec.Password == short(key) }) // before that nobody can log in
			st.Sync, st.Followers = parseStandbyNames(s.SyncNames), a.live.heard.alive(s.Replies, time.Now())
			st.Stalled = len(st.Sync) > 0 && len(intersect(st.Sync, st.Followers)) == 0
			if writing {
				st.Epoch = epoch
			}
		}
	case installed && queryErr == nil:
		st.Position, st.Timeline, st.Clean = data.Position, data.Timeline, data.Clean()
	}
	return st, nil
}

func (a *Agent) callInstall(_ context.Context, in installCall) (nothing, error) {
	if in.Key == "" {
		return nothing{}, errors.New("an install needs a key")
	}
	a.mu.Lock()
	busy := a.live.job != "" && a.rec.Install != nil && a.rec.Install.Key == in.Key
	a.mu.Unlock()
	if busy || a.srv.installed() {
		return nothing{}, nil
	}
	defer a.wake()
	a.mu.Lock()
	a.live.retry, a.live.failures = time.Time{}, 0
	if in.Restore != nil { // it is the order to restore again
		a.live.fault = nil
	}
	a.mu.Unlock()
	return nothing{}, a.change(func(r *record) {
		r.Install, r.Installed = &installation{Key: in.Key, From: in.From, Restore: in.Restore}, ""
	})
}

func (a *Agent) callStart(context.Context, nothing) (nothing, error) {
	a.mu.Lock()
	none := a.rec.Install == nil && !a.srv.installed()
	if a.rec.Run && a.live.fault == nil {
		a.mu.Unlock()
		return nothing{}, nil
	}
	a.mu.Unlock()
	if none {
		return nothing{}, port.StartFailed.Errorf("%s has no data: they are to be installed first", a.name)
	}
	return nothing{}, a.command(func(r *record) { r.Run, r.Mode = true, "" })
}

// command changes the desired state, and forgets earlier failures.
func (a *Agent) command(do func(*record)) error {
	if err := a.change(do); err != nil {
		return err
	}
	a.mu.Lock()
	a.live.fault, a.live.failures, a.live.retry = nil, 0, time.Time{}
	a.mu.Unlock()
	a.wake()
	return nil
}

func (a *Agent) callStop(_ context.Context, in stopCall) (nothing, error) {
	if in.Mode != port.Immediate {
		in.Mode = port.Fast
	}
	a.mu.Lock()
	if a.live.cancelJob != nil && (a.live.job != "checkpoint" || in.Mode == port.Immediate) {
		a.live.cancelJob()
	}
	a.mu.Unlock()
	return nothing{}, a.command(func(r *record) { r.Run, r.Mode, r.Promote = false, in.Mode, 0 })
}

func (a *Agent) callPromote(ctx context.Context, in promoteCall) (nothing, error) {
	a.believe(in.Lease)
	g, err := a.grants.Read(ctx)
	if err != nil {
		return nothing{}, err
	}
	if g.Writer != a.name || g.Epoch != in.Epoch || in.Epoch <= 0 {
		return nothing{}, port.SwitchRefused.Errorf("%s cannot be promoted under epoch %d: the grant is of epoch %d to %s", a.name, in.Epoch, g.Epoch, lease.Named(g.Writer))
	}
	if !a.srv.installed() {
		return nothing{}, port.SwitchRefused.Errorf("%s has no data", a.name)
	}
	if epoch, on := a.lease.Writing(); on && epoch == in.Epoch {
		return nothing{}, nil
	}
	engine := a.engine()
	if engine.Running() {
		if s, err := a.queryState(ctx); err == nil && !s.Recovery {
			return nothing{}, a.change(func(r *record) { r.Run = true }) // it writes already, and its lease takes the new epoch
		}
	}
	return nothing{}, a.command(func(r *record) { r.Run, r.Promote, r.Hold = true, in.Epoch, false })
}

func (a *Agent) callFollow(ctx context.Context, in followCall) (nothing, error) {
	if in.Writer.Name == a.name {
		return nothing{}, port.SwitchRefused.Errorf("%s cannot follow itself", a.name)
	}
	if in.Writer.Name == "" || in.Writer.Host == "" {
		return nothing{}, errors.New("nobody to follow is named")
	}
	g, err := a.grants.Read(ctx)
	if err != nil {
		return nothing{}, err
	}
	if g.Writer == a.name {
		return nothing{}, port.SwitchRefused.Errorf("%s holds the grant of epoch %d: a writer follows nobody", a.name, g.Epoch)
	}
	a.mu.Lock()
	same := a.rec.Run && a.rec.Rejoin && !a.rec.Hold && a.rec.Promote == 0 && a.rec.Upstream != nil && *a.rec.Upstream == in.Writer
	a.mu.Unlock()
	if same {
		return nothing{}, nil
	}
	return nothing{}, a.command(func(r *record) {
		r.Run, r.Upstream, r.Rejoin, r.Hold, r.Promote = true, &in.Writer, true, false, 0
	})
}

// callHold makes a follower receive from nobody, so that it confirms no further commits.
// AgentStatus.Held reports when that is so.
func (a *Agent) callHold(context.Context, nothing) (nothing, error) {
	err := a.change(func(r *record) { r.Hold = true })
	a.wake()
	return nothing{}, err
}

func (a *Agent) callApply(ctx context.Context, in applyCall) (applyAnswer, error) {
	if err := checkParameters(in.Parameters); err != nil {
		return applyAnswer{}, err
	}
	a.mu.Lock()
	next := a.rec.clone()
	a.mu.Unlock()
	next.Params, next.Applied = in.Parameters, true
	if a.srv.installed() {
		if err := a.srv.checkValues(ctx, a.configurationOf(next, true)); err != nil {
			return applyAnswer{}, port.ParameterInvalid.Errorf("%w", err)
		}
	}
	_, writes := a.lease.Writing()
	if err := a.change(func(r *record) {
		if writes {
			r.Floors = withoutChanged(r.Floors, a.parameters(*r), in.Parameters)
		}
		r.Params, r.Applied = in.Parameters, true
	}); err != nil {
		return applyAnswer{}, err
	}
	engine := a.engine()
	if !engine.Running() {
		return applyAnswer{}, nil
	}
	s, err := a.queryState(ctx)
	if err != nil {
		a.wake()
		return applyAnswer{}, err
	}
	a.mu.Lock()
	r := a.rec.clone()
	stale := a.configuration(r, s.Recovery) != a.live.config
	a.mu.Unlock()
	if stale {
		if err := a.reload(ctx, r, s.Recovery); err != nil {
			return applyAnswer{}, err
		}
	}
	var restart bool
	err = a.sql(ctx, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT bool_or(pending_restart) FROM pg_settings").Scan(&restart)
	})
	return applyAnswer{Restart: restart}, err
}

// withoutChanged returns the floors of the parameters whose value stays.
func withoutChanged(floors, old, now map[string]string) map[string]string {
	kept := maps.Clone(floors)
	maps.DeleteFunc(kept, func(name, _ string) bool { return old[name] != now[name] })
	return kept
}

func (a *Agent) configurationOf(r record, recovery bool) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.configuration(r, recovery)
}

func (a *Agent) callMembers(_ context.Context, in Membership) (nothing, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !in.newer(a.rec.Members) {
		return nothing{}, nil
	}
	var gone []string
	for _, name := range a.rec.Members.Names {
		if !slices.Contains(in.Names, name) {
			gone = append(gone, slotName(name))
		}
	}
	if err := a.changeLocked(func(r *record) { r.Members = in }); err != nil {
		return nothing{}, err
	}
	a.live.drop = slices.DeleteFunc(append(a.live.drop, gone...), func(slot string) bool {
		return slices.ContainsFunc(in.Names, func(name string) bool { return slotName(name) == slot })
	})
	a.wake()
	return nothing{}, nil
}

// parseStandbyNames parses the result of standbyNames.
func parseStandbyNames(text string) []string {
	list, ok := strings.CutPrefix(text, "ANY 1 (")
	if !ok {
		return nil
	}
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(list, ")"), ",") {
		names = append(names, strings.ReplaceAll(strings.Trim(name, `"`), `""`, `"`))
	}
	return names
}
