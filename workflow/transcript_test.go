package workflow_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The faults of the transcripts.
var (
	_ = fault.Declare(fault.Kind{Code: "SERVER_BUSY", Class: fault.Transient, Title: "the server is busy", Remedy: "Wait."})
	_ = fault.Declare(fault.Kind{Code: "API_THROTTLED", Class: fault.Transient, Uncharged: true, Title: "the provider throttles", Remedy: "Wait."})
	_ = fault.Declare(fault.Kind{Code: "DISK_FULL", Class: fault.Blocked, Title: "the disk is full", Remedy: "Free some space, then resume."})
)

// TestTranscripts executes the transcripts in testdata: a command, ----, and what the engine
// decided, saved and called. testdata/README.md lists the commands. The clock is fake and starts at
// 0. "go test ./workflow -run TestTranscripts -rewrite" writes the answers anew.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") {
			t.Skip("no transcript")
		}
		// The file is read outside of the bubble, so that no time passes between two commands.
		commands, answers, ended := make(chan *datadriven.TestData), make(chan string), make(chan struct{})
		go func() {
			defer close(ended)
			synctest.Test(t, func(t *testing.T) {
				s := newTranscript(t)
				defer s.end()
				for command := range commands {
					answers <- s.execute(command)
				}
			})
		}()
		defer func() { <-ended }()
		defer close(commands)
		datadriven.RunTest(t, path, func(t *testing.T, command *datadriven.TestData) string {
			select {
			case commands <- command:
			case <-ended:
			}
			select {
			case answer := <-answers:
				return answer
			case <-ended:
				t.Fatal("the transcript was given up")
				return ""
			}
		})
	})
}

// transcript is what one file is executed against: a store, workers, and a client that sends requests.
type transcript struct {
	t       *testing.T
	memory  *runstore.Memory
	begun   time.Time
	files   []flowfile.File
	set     *flowfile.Set
	client  *workflow.Engine
	workers map[string]*transcriptWorker

	requests int // requests that were sent without an id

	mu      sync.Mutex
	log     []transcriptLine
	names   map[string]string // short names of runs by id
	pending map[string]*pendingCall
}

// transcriptLine is one line of an answer, or several that belong together.
type transcriptLine struct {
	at   time.Duration
	run  string
	call bool // calls of attempts start concurrently: neighbours are sorted
	text string
}

type transcriptWorker struct {
	engine *workflow.Engine
	store  *recordingStore
	cancel context.CancelFunc
	ended  chan struct{}
}

// pendingCall is a step that waits for the outcome command.
type pendingCall struct {
	task    *workflow.Task
	outcome chan func(*workflow.Task) outcome.Outcome
}

func newTranscript(t *testing.T) *transcript {
	s := &transcript{t: t, memory: runstore.NewMemory(), begun: time.Now(), workers: map[string]*transcriptWorker{}, names: map[string]string{}, pending: map[string]*pendingCall{}}
	s.client = s.engine(&recordingStore{Memory: s.memory, transcript: s}, workflow.Options{Worker: "client", Retention: runtype.Retention{Age: time.Hour, Keep: 1}})
	return s
}

func (s *transcript) engine(store *recordingStore, o workflow.Options) *workflow.Engine {
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	o.Actions = s.actions(store)
	o.Secrets = fixedSecrets{}
	o.Compile = func(source []byte) (workflow.Flow, error) {
		return flowfile.FromSource(source, flowfile.Options{Actions: o.Actions})
	}
	e, err := workflow.New(store, nil, o)
	if err == nil {
		err = s.load(e, store)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

func (s *transcript) load(e *workflow.Engine, store *recordingStore) error {
	if len(s.files) == 0 {
		return nil
	}
	set, err := flowfile.Parse(s.files, flowfile.Options{Actions: s.actions(store)})
	if err != nil {
		return err
	}
	s.set = set
	return e.LoadAll(set.Flows(), e.Healers())
}

func (s *transcript) end() {
	for _, name := range slices.Sorted(maps.Keys(s.workers)) {
		s.stop(name)
	}
}

func (s *transcript) stop(name string) {
	w := s.workers[name]
	w.store.set(modeDead)
	w.cancel()
	s.mu.Lock()
	for _, p := range s.pending { // a deaf step returns at last
		select {
		case p.outcome <- func(*workflow.Task) outcome.Outcome { return outcome.Done() }:
		default:
		}
	}
	s.mu.Unlock()
	<-w.ended
	delete(s.workers, name)
}

// actions returns the actions of the flows: work returns the outcome that the transcript gives; deaf
// also ignores that its context was cancelled; login returns the secret "token" as its output and
// fails with it.
func (s *transcript) actions(store *recordingStore) []workflow.Action {
	return []workflow.Action{
		{Name: "work", Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome { return s.work(ctx, t, store, false) }},
		{Name: "deaf", Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome { return s.work(ctx, t, store, true) }},
		{Name: "login", Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			token, err := t.Secret("token")
			if err != nil {
				return outcome.Fail(err)
			}
			if err := t.Set(map[string]string{"header": "Bearer " + token}); err != nil {
				return outcome.Fail(err)
			}
			if t.Attempt() == 1 {
				return outcome.Fail(fmt.Errorf("the server does not know the token %s", token))
			}
			return outcome.Done()
		}},
	}
}

type fixedSecrets struct{}

func (fixedSecrets) Secret(context.Context, workflow.SecretRef) (string, error) {
	return "hunter2", nil
}

func (s *transcript) work(ctx context.Context, t *workflow.Task, store *recordingStore, deaf bool) outcome.Outcome {
	name := s.short(t.RunID())
	call := &pendingCall{task: t, outcome: make(chan func(*workflow.Task) outcome.Outcome, 1)}
	key := name + " " + t.Step()
	if t.Fault() != nil && t.Step() == "heal:"+string(t.Fault().Code) {
		store.say(name, true, "calls the healer of %s, attempt %d", t.Fault().Code, t.Attempt())
	} else {
		store.say(name, true, "calls %s, attempt %d%s", t.Step(), t.Attempt(), s.called(t))
	}
	s.mu.Lock()
	s.pending[key] = call
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pending[key] == call {
			delete(s.pending, key)
		}
	}()
	done := ctx.Done()
	for {
		select {
		case answer := <-call.outcome:
			return answer(t)
		case <-done:
			store.say(name, true, "cancels the context of %s: %s", t.Step(), strings.TrimPrefix(context.Cause(ctx).Error(), "workflow: "))
			if !deaf {
				return outcome.Fail(context.Cause(ctx))
			}
			done = nil
		}
	}
}

func (s *transcript) called(t *workflow.Task) string {
	text := ""
	if key := s.shorten(t.Key()); t.Undoing() {
		text += ", to undo it"
	} else if !strings.HasSuffix(key, "/0") {
		text += ", key " + key
	}
	var with any
	if t.With(&with) == nil && with != nil {
		if data, _ := json.Marshal(with); string(data) != "{}" {
			text += ", with " + string(data)
		}
	}
	return text
}

// execute carries out one command and returns what happened.
func (s *transcript) execute(c *datadriven.TestData) string {
	var words []string
	for _, arg := range c.CmdArgs {
		if len(arg.Vals) == 0 {
			words = append(words, arg.Key)
		}
	}
	word := func(i int) string {
		if i >= len(words) {
			s.t.Fatalf("%s: %s has %d words, it needs more", c.Pos, c.Cmd, len(words))
		}
		return words[i]
	}
	opt := func(key string) string {
		for _, arg := range c.CmdArgs {
			if arg.Key == key && len(arg.Vals) > 0 {
				return strings.Join(arg.Vals, ", ")
			}
		}
		return ""
	}
	ctx := s.t.Context()
	answer := ""
	started := time.Since(s.begun).Round(time.Millisecond)
	switch c.Cmd {
	case "flow":
		answer = s.flow(c.Input)
	case "worker":
		s.worker(word(0), opt)
	case "start":
		answer = s.start(ctx, word(0), opt, c.Input)
	case "outcome":
		answer = s.answer(c, word(0), word(1), words[2:], opt)
	case "signal":
		answer = accepted(s.client.Send(ctx, s.id(word(0)), runtype.Signal{ID: opt("id"), Name: word(1), Payload: json.RawMessage(c.Input), Actor: opt("actor")}))
	case "request":
		answer = s.request(ctx, s.id(word(0)), word(1), opt, c.Input)
	case "clock":
		d, err := time.ParseDuration(word(0))
		if err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(d)
	case "crash":
		s.workers[word(0)].store.set(modeDead)
		answer = word(0) + " is gone, and whatever it had not saved"
	case "hold":
		s.workers[word(0)].store.set(modeHeld)
	case "cut":
		s.workers[word(0)].store.set(modeCut)
	case "join":
		s.workers[word(0)].store.set(modeOpen)
	case "drain":
		s.workers[word(0)].cancel()
	case "retain":
		n, err := s.client.Retain(ctx)
		if answer = fmt.Sprintf("%d removed", n); err != nil {
			answer = err.Error()
		}
	case "show":
		synctest.Wait()
		answer = s.show(ctx, word(0))
	case "history":
		synctest.Wait()
		answer = s.history(ctx, word(0))
	default:
		s.t.Fatalf("%s: no command %q", c.Pos, c.Cmd)
	}
	time.Sleep(time.Microsecond) // see recordingStore.settle
	synctest.Wait()
	about := ""
	if len(words) > 0 {
		about = words[0]
	}
	return s.shorten(answer + "\n" + s.lines(started, about))
}

// lines returns what has happened since the last command: by time, then by run. The run that the
// command was about is the first; the others follow in the order in which they acted.
func (s *transcript) lines(now time.Duration, about string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	type place struct {
		at  time.Duration
		run string
	}
	first := map[place]int{}
	for i, l := range log {
		if _, ok := first[place{l.at, l.run}]; !ok {
			first[place{l.at, l.run}] = i + 1
		}
		if l.run == about {
			first[place{l.at, l.run}] = 0
		}
	}
	slices.SortStableFunc(log, func(a, b transcriptLine) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(first[place{a.at, a.run}], first[place{b.at, b.run}]))
	})
	var b strings.Builder
	for i := 0; i < len(log); {
		j := i + 1
		for j < len(log) && log[i].call && log[j].call && log[i].at == log[j].at && log[i].run == log[j].run {
			j++
		}
		slices.SortStableFunc(log[i:j], func(a, b transcriptLine) int { return cmp.Compare(a.text, b.text) })
		for _, l := range log[i:j] {
			if l.at != now {
				now = l.at
				fmt.Fprintf(&b, "at %s\n", l.at)
			}
			b.WriteString(l.text + "\n")
		}
		i = j
	}
	return b.String()
}

func (s *transcript) say(run string, call bool, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, transcriptLine{at: time.Since(s.begun).Round(time.Millisecond), run: run, call: call, text: run + " " + fmt.Sprintf(format, args...)})
}

// flow loads flows, separated by a line "---", in place of the loaded flows of the same names.
func (s *transcript) flow(text string) string {
	for part := range strings.SplitSeq(text, "\n---\n") {
		line, _, _ := strings.Cut(part, "\n")
		file := flowfile.File{Name: strings.TrimPrefix(line, "flowName: ") + ".yaml", Data: []byte(part)}
		s.files = append(slices.DeleteFunc(s.files, func(f flowfile.File) bool { return f.Name == file.Name }), file)
	}
	if err := s.load(s.client, s.client.Store().(*recordingStore)); err != nil {
		return err.Error()
	}
	for _, w := range s.workers {
		if err := s.load(w.engine, w.store); err != nil {
			return err.Error()
		}
	}
	return ""
}

func (s *transcript) worker(name string, opt func(string) string) {
	store := &recordingStore{Memory: s.memory, transcript: s, worker: name}
	o := workflow.Options{Worker: name}
	if opt("attempts") != "" {
		fmt.Sscan(opt("attempts"), &o.Attempts)
	}
	if code := opt("healer"); code != "" {
		limits := workflow.Limits{Attempts: 2, First: time.Minute}
		o.Healers = map[fault.Code]workflow.Healer{fault.Code(code): {Limits: limits, Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
			return s.work(ctx, t, store, false)
		}}}
	}
	w := &transcriptWorker{engine: s.engine(store, o), store: store, ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	s.workers[name] = w
	go func() {
		defer close(w.ended)
		_ = w.engine.Serve(ctx)
	}()
}

func (s *transcript) start(ctx context.Context, name string, opt func(string) string, input string) string {
	subject := cmp.Or(opt("subject"), "Cluster/demo/"+name)
	req := workflow.Request{Flow: opt("flow"), Subject: subject, RequestID: name, Input: json.RawMessage(input), Actor: workflow.Actor{Name: opt("actor")}}
	if req.Flow == "" {
		req.Flow = s.set.Flows()[0].Name
	}
	run, err := s.client.Start(ctx, req)
	if err != nil {
		return accepted(err)
	}
	if s.short(run.ID) != name {
		s.t.Fatalf("run %s is named %s", name, s.short(run.ID))
	}
	return ""
}

func (s *transcript) answer(c *datadriven.TestData, run, step string, words []string, opt func(string) string) string {
	s.mu.Lock()
	call := s.pending[run+" "+step]
	s.mu.Unlock()
	if call == nil {
		return "no attempt of " + step + " is open"
	}
	if slices.Contains(words, "progress") {
		var done, total int64
		fmt.Sscan(opt("done"), &done)
		fmt.Sscan(opt("total"), &total)
		call.task.Progress(done, total, "%s", c.Input)
		return ""
	}
	every, _ := time.ParseDuration(opt("wait"))
	code, reason, take := opt("fail"), cmp.Or(opt("reason"), "Pending"), opt("take")
	call.outcome <- func(t *workflow.Task) outcome.Outcome {
		if take != "" {
			signal, ok := t.Signal(take)
			if !ok {
				return outcome.Wait(every, "Signal", "signal %s", take)
			}
			_ = t.Set(signal.Payload)
			return outcome.Done()
		}
		switch {
		case slices.Contains(words, "panic"):
			panic(c.Input)
		case code == "UNKNOWN":
			return outcome.Fail(errors.New(c.Input))
		case code != "":
			kind, _ := fault.Lookup(code)
			return outcome.Fail(kind.Errorf("%s", c.Input))
		case every > 0:
			return outcome.Wait(every, reason, "%s", c.Input)
		}
		if c.Input != "" {
			if err := t.Set(json.RawMessage(c.Input)); err != nil {
				return outcome.Fail(err)
			}
		}
		return outcome.Done()
	}
	return ""
}

func (s *transcript) request(ctx context.Context, id, verb string, opt func(string) string, input string) string {
	by := workflow.Actor{Name: cmp.Or(opt("actor"), "ann"), Reason: opt("reason"), RequestID: cmp.Or(opt("id"), s.requestID())}
	var err error
	switch verb {
	case "pause":
		err = s.client.Pause(ctx, id, by)
	case "resume":
		err = s.client.Resume(ctx, id, workflow.From(opt("from")), opt("definition"), by)
	case "cancel":
		err = s.client.Cancel(ctx, id, runtype.Mode(opt("mode")), opt("giveUp") != "", by)
	case "skip":
		var output any
		if input != "" {
			output = json.RawMessage(input)
		}
		err = s.client.Skip(ctx, id, opt("step"), output, opt("force") != "", by)
	default:
		s.t.Fatalf("no request %q", verb)
	}
	return accepted(err)
}

// requestID returns req1, req2 and so on.
func (s *transcript) requestID() string {
	s.requests++
	return fmt.Sprintf("req%d", s.requests)
}

func accepted(err error) string {
	if err == nil {
		return "accepted"
	}
	return fmt.Sprintf("refused: %s: %s", fault.Of(err).Code, fault.Message(err))
}

// id returns the id of the run with a short name.
func (s *transcript) id(short string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, name := range s.names {
		if name == short {
			return id
		}
	}
	return short
}

func (s *transcript) short(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.names[id], id)
}

// shorten replaces the ids of runs.
func (s *transcript) shorten(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, name := range s.names {
		text = strings.ReplaceAll(text, id, name)
	}
	return strings.TrimPrefix(text, "\n")
}

// since returns a time as the transcripts show it.
func (s *transcript) since(at time.Time) string {
	return at.Sub(s.begun).Round(time.Millisecond).String()
}

// mode says how a store behaves towards one worker.
type mode int

const (
	modeOpen mode = iota
	modeHeld      // calls wait until the mode changes: the process is suspended
	modeCut       // calls fail: the network is cut
	modeDead      // calls fail, and nothing is shown: the process is dead
)

// recordingStore is the store as one worker sees it. It shows what the worker claims and saves.
type recordingStore struct {
	*runstore.Memory
	transcript *transcript
	worker     string

	mu      sync.Mutex
	mode    mode
	changed chan struct{}
}

func (m *recordingStore) set(to mode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mode = to
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

func (m *recordingStore) reach(ctx context.Context) error {
	for {
		m.mu.Lock()
		mode := m.mode
		if m.changed == nil {
			m.changed = make(chan struct{})
		}
		changed := m.changed
		m.mu.Unlock()
		switch mode {
		case modeOpen:
			return nil
		case modeCut, modeDead:
			return runstore.StoreUnavailable.Errorf("the store does not answer")
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *recordingStore) say(run string, call bool, format string, args ...any) {
	m.mu.Lock()
	dead := m.mode == modeDead
	m.mu.Unlock()
	if !dead {
		m.transcript.say(run, call, format, args...)
	}
}

func (m *recordingStore) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	if err := m.reach(ctx); err != nil {
		return nil, err
	}
	name := r.RequestID
	if r.Parent != "" {
		name = m.transcript.short(r.Parent) + "." + strings.TrimPrefix(r.ParentRef, "heal:")
	}
	m.transcript.mu.Lock()
	for other := range m.transcript.names {
		if other != r.ID && m.transcript.names[other] == name {
			name += "'"
		}
	}
	m.transcript.names[r.ID] = name
	m.transcript.mu.Unlock()
	got, err := m.Memory.Create(ctx, r, events)
	if err == nil {
		text := string(got.Phase)
		if got.Owner != "" {
			text += ", claimed by " + got.Owner
		}
		m.say(name, false, "created: %s", text)
	}
	return got, err
}

func (m *recordingStore) Load(ctx context.Context, id string) (*runtype.Run, []runtype.Signal, error) {
	if err := m.reach(ctx); err != nil {
		return nil, nil, err
	}
	return m.Memory.Load(ctx, id)
}

func (m *recordingStore) Save(ctx context.Context, save *runstore.Save) error {
	text := m.transcript.saved(save)
	name := m.transcript.short(save.Run.ID)
	if err := m.reach(ctx); err != nil {
		return err
	}
	err := m.Memory.Save(ctx, save)
	if err != nil {
		m.say(name, false, "save by %s is refused: %s", m.worker, strings.TrimPrefix(err.Error(), "workflow: "))
		return err
	}
	m.say(name, false, "%s", text)
	return nil
}

func (m *recordingStore) Claim(ctx context.Context, c runstore.Claim) (runstore.Claimed, error) {
	if err := m.reach(ctx); err != nil {
		return runstore.Claimed{}, err
	}
	m.settle()
	claimed, err := m.Memory.Claim(ctx, c)
	for _, l := range claimed.Runs {
		m.say(m.transcript.short(l.Run.ID), false, "claimed by %s, epoch %d", m.worker, l.Run.Epoch)
	}
	return claimed, err
}

func (m *recordingStore) ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (runstore.Loaded, error) {
	if err := m.reach(ctx); err != nil {
		return runstore.Loaded{}, err
	}
	m.settle()
	l, err := m.Memory.ClaimRun(ctx, worker, id, lease)
	if err == nil && !l.Run.Phase.Final() {
		m.say(m.transcript.short(id), false, "claimed by %s, epoch %d", worker, l.Run.Epoch)
	}
	return l, err
}

// settle lets the other runs finish what they do, so that the order in which runs act is always the
// same. The clock moves by less than a transcript shows.
func (m *recordingStore) settle() { time.Sleep(time.Nanosecond) }

func (m *recordingStore) Renew(ctx context.Context, worker string, lease time.Duration) error {
	if err := m.reach(ctx); err != nil {
		return err
	}
	return m.Memory.Renew(ctx, worker, lease)
}

func (m *recordingStore) Release(ctx context.Context, worker string) error {
	if err := m.reach(ctx); err != nil {
		return err
	}
	return m.Memory.Release(ctx, worker)
}

func (m *recordingStore) ReleaseRun(ctx context.Context, worker string, r *runtype.Run, next time.Time) error {
	if err := m.reach(ctx); err != nil {
		return err
	}
	m.say(m.transcript.short(r.ID), false, "released without a write")
	return m.Memory.ReleaseRun(ctx, worker, r, next)
}

func (m *recordingStore) Send(ctx context.Context, id string, signal runtype.Signal) error {
	if err := m.reach(ctx); err != nil {
		return err
	}
	return m.Memory.Send(ctx, id, signal)
}

func (m *recordingStore) Remove(ctx context.Context, ids []string) error {
	for _, id := range ids {
		m.say(m.transcript.short(id), false, "removed")
	}
	return m.Memory.Remove(ctx, ids)
}

// saved describes a save: the phase and position of the run, the records that changed, the signals
// that it consumes, the messages that it sends, and its events.
func (s *transcript) saved(save *runstore.Save) string {
	r := save.Run
	var b strings.Builder
	fmt.Fprintf(&b, "saved: %s", s.position(r))
	for _, rec := range r.Changed() {
		fmt.Fprintf(&b, "\n  %s", s.record(rec))
	}
	for _, id := range save.Consumed {
		fmt.Fprintf(&b, "\n  consumed %s", id)
	}
	for _, mail := range save.Mail {
		fmt.Fprintf(&b, "\n  sent %s to %s", mail.Signal.Name, s.short(mail.To))
	}
	for _, e := range save.Events {
		fmt.Fprintf(&b, "\n  event %s", eventText(e))
	}
	return b.String()
}

func (s *transcript) position(r *runtype.Run) string {
	text := string(r.Phase)
	if cur := r.Current(); cur != nil {
		text += " at " + cur.Name
	}
	if !r.NextAt.IsZero() {
		text += ", due " + s.since(r.NextAt)
	}
	if r.Fault != nil {
		text += ", fault " + faultText(r.Fault)
	}
	if r.State.Result != nil {
		text += ", result " + string(r.State.Result)
	}
	if stop := r.State.Stop; stop != nil {
		text += strings.TrimRight(fmt.Sprintf(", stop: %s %s", stop.Verb, stop.Mode), " ")
	}
	for _, h := range r.State.Healing {
		text += strings.TrimRight(fmt.Sprintf(", healing %d %s", h.Attempts, h.Ended), " ")
	}
	if r.Phase.Final() || r.Owner == "" {
		text += ", released"
	}
	return text
}

func (s *transcript) record(rec *runtype.StepRecord) string {
	text := fmt.Sprintf("%s %s", rec.Name, rec.Phase)
	add := func(when bool, format string, args ...any) {
		if when {
			text += ", " + fmt.Sprintf(format, args...)
		}
	}
	open := rec.Phase == runtype.StepRunning || rec.Phase == runtype.StepRetrying || rec.Phase == runtype.StepFailed
	add(rec.Round > 0, "round %d", rec.Round)
	add(rec.Undoing, "undoing")
	add(open && rec.Attempt > 0, "attempt %d", rec.Attempt)
	add(rec.Failures > 0, "failures %d", rec.Failures)
	add(rec.Uncharged > 0, "uncharged %d", rec.Uncharged)
	add(rec.Lost > 0, "lost %d", rec.Lost)
	add(rec.Isolated, "isolated")
	add(!rec.NextAt.IsZero(), "next %s", s.since(rec.NextAt))
	if w := rec.Wait; w != nil {
		add(true, "%s", strings.TrimSpace(w.Reason+" "+w.Message))
		add(!w.Deadline.IsZero(), "deadline %s", s.since(w.Deadline))
	}
	if p := rec.Progress; p != nil {
		add(true, "progress %d of %d", p.Done, p.Total)
	}
	if rec.Items != nil {
		var keys []string
		for _, item := range rec.Items {
			keys = append(keys, item.Key)
		}
		add(true, "items %s", strings.Join(keys, " "))
	}
	add(rec.Output != nil && rec.Phase != runtype.StepPending, "output %s", rec.Output)
	add(rec.Note != "", "%q", rec.Note)
	add(rec.Fault != nil && open, "%s", faultText(rec.Fault))
	return text
}

func faultText(f *runtype.Fault) string {
	if f == nil {
		return ""
	}
	text := string(f.Code)
	if f.Message != "" {
		text += fmt.Sprintf(" %q", f.Message)
	}
	if f.Exhausted {
		text += " (attempts used up)"
	}
	if f.Healer != "" {
		text += " (" + f.Healer + ")"
	}
	return text
}

func eventText(e runtype.Event) string {
	text := fmt.Sprintf("%d %s", e.Seq, e.Kind)
	for _, part := range []string{e.Step, string(e.Code), e.Reason} {
		if part != "" {
			text += " " + part
		}
	}
	if e.Actor != "" && e.Actor != "engine" {
		text += " by " + e.Actor
	}
	if e.Message != "" && e.Code == "" {
		text += fmt.Sprintf(" %q", e.Message)
	}
	return text
}

// show prints the checkpoint of a run as the store has it.
func (s *transcript) show(ctx context.Context, name string) string {
	r, mail, err := s.memory.Load(ctx, s.id(name))
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, revision %d, epoch %d", s.position(r), r.Revision, r.Epoch)
	for rec := range r.Steps() {
		fmt.Fprintf(&b, "\n  %s", s.record(rec))
	}
	for _, m := range mail {
		fmt.Fprintf(&b, "\n  unread %s %s", m.Name, m.ID)
	}
	return b.String()
}

func (s *transcript) history(ctx context.Context, name string) string {
	events, err := s.memory.History(ctx, s.id(name), 0, 0)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s at %s\n", eventText(e), s.since(e.At))
	}
	return b.String()
}
