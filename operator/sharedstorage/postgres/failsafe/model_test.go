package failsafe_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// A model of a cluster under an unreliable API server. The rules are those of the product
// (failsafe, lease.Grant); the model has the messages between processes, their clocks, and what
// goes wrong: an API server that is away or cut off, links that are cut, frozen and restarted
// processes, instances that are moved while the old one still runs, members that come and go, a
// deleted record, grants to anybody at any time.
const (
	step      = 100 * time.Millisecond
	leaseTime = 5 * time.Second
	margin    = leaseTime / 6
	limit     = 20 * time.Second // Recorded.For
	patience  = leaseTime / 3    // of a renewal; a first lease may take longer
	nodes     = 5
)

// rules can be broken on purpose, to see that the model finds it.
type rules struct {
	forgetPromises   bool // a lease is taken although a promise runs
	promiseAnyway    bool // a promise is given while a lease is taken
	othersTakeAtOnce bool // an instance that is not in the record does not wait
	endless          bool // a writer goes on without a limit
	nameOnly         bool // an instance that was moved is the same one
	lastSuccess      bool // a writer asks those of its last renewal that succeeded, and no others
	oneMayBeMissing  bool // a writer goes on if one member does not answer
	countFromAnswers bool // a writer counts from the answers, not from before the questions
	forgottenCounts  bool // a restarted agent counts a lease from before its start, when the manager saw it
	restoredIsKnown  bool // after a deleted record was restored, nobody waits for what it said
}

// process is one incarnation of an instance.
type process struct {
	w     *world
	name  string
	node  int
	dead  bool
	thaws time.Duration // it is frozen until then
	lags  time.Duration // its calls of the API server take longer
	late  time.Duration // its answers to others take longer

	on       bool
	epoch    int64
	deadline time.Duration
	wrote    int64 // newest epoch under which it wrote; survives a restart and a move

	promise failsafe.Promise
	holder  failsafe.Holder
	success []string // members of the last renewal that succeeded
	members []string // as the manager has sent them: identities

	born  time.Duration // when its agent was started
	stamp int           // of the lease that it saw last, and when it saw it first
	first time.Duration

	renewal *renewal
	round   *round
	next    time.Duration // the next renewal
}

// renewal is an attempt under way: it reads the record, writes it, and gets the answer, each after
// a delay.
type renewal struct {
	began, at time.Duration // when it began, and when its next stage is due
	stage     int
	attempt   *failsafe.Recorded
	holds     bool
	epoch     int64
	version   int
	next      lease.Grant
}

// round is a round of questions under way.
type round struct {
	asked   time.Duration
	epoch   int64
	members []string
	answers map[string]failsafe.Answer
	pending []message
}

// message is a question, and then its answer.
type message struct {
	to     *process
	at     time.Duration
	answer *failsafe.Answer
}

type world struct {
	broken rules
	r      *rand.Rand
	now    time.Duration
	lossy  float64 // share of answers of the API server that are lost

	processes []*process // all incarnations
	current   map[string]*process

	version int // of the record
	lost    bool
	grant   lease.Grant
	stamp   int           // of the lease
	stamped time.Duration // when it was renewed, which the manager sees at once

	api   [nodes + 1]bool // reached from a node; the last is the manager's
	links [nodes][nodes]bool

	gone    int // rounds in which a writer went on
	writers int // leases that were taken
	log     []string
}

var zero = time.Unix(1_000_000, 0)

func newWorld(seed uint64, broken rules) *world {
	w := &world{broken: broken, r: rand.New(rand.NewPCG(seed, 14)), lossy: 0.05, current: map[string]*process{}}
	w.mend()
	for i, name := range []string{"a", "b", "c"} {
		w.add(name, i)
	}
	w.version, w.grant = 1, lease.Grant{Writer: "a", Epoch: 1}
	return w
}

func (w *world) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%8s ", w.now)+fmt.Sprintf(format, args...))
}

func (w *world) mend() {
	for i := range w.api {
		w.api[i] = true
	}
	for i := range w.links {
		for j := range w.links {
			w.links[i][j] = true
		}
	}
}

// add starts an incarnation. On one node the lock of the folder keeps two of a name apart.
func (w *world) add(name string, node int) *process {
	for _, old := range w.processes {
		if old.name == name && old.node == node {
			old.dead, old.on = true, false
		}
	}
	p := &process{w: w, name: name, node: node, stamp: -1, born: w.now}
	w.processes = append(w.processes, p)
	w.current[name] = p
	return p
}

func (w *world) chance(p float64) bool { return w.r.Float64() < p }

// delay is that of a message: mostly short.
func (w *world) delay() time.Duration {
	if w.chance(0.1) {
		return time.Duration(w.r.IntN(30)) * step
	}
	return time.Duration(w.r.IntN(3)) * step
}

func (p *process) identity() string {
	if p.w.broken.nameOnly {
		return failsafe.Identity(p.name, "anywhere")
	}
	return failsafe.Identity(p.name, fmt.Sprint(p.node))
}

func (p *process) up() bool { return !p.dead && p.w.now >= p.thaws }

// writes reports whether the engine may write: its guard stops it in time even if its agent is
// frozen.
func (p *process) writes() bool { return p.on && p.w.now < p.deadline }

// tick lets a process do what it does by itself.
func (p *process) tick() {
	w := p.w
	if !p.up() {
		return
	}
	if p.on && w.now >= p.deadline {
		w.say("%s stops", p.identity())
		p.on = false
		if w.api[p.node] && !w.lost && w.chance(0.5) {
			w.put(p.renewed(lease.Renewal{Writer: p.name, Epoch: p.epoch}))
		}
	}
	p.advanceRenewal()
	p.advanceRound()
	if p.renewal != nil || w.now < p.next {
		return
	}
	switch {
	case p.on:
		p.begin(p.epoch)
	case w.api[p.node] && !w.lost && w.grant.Writer == p.name:
		p.begin(w.grant.Epoch)
	}
	p.next = w.now + leaseTime/5
}

func (p *process) begin(epoch int64) {
	w := p.w
	promise := &p.promise
	if w.broken.forgetPromises {
		promise = &failsafe.Promise{}
	}
	if promise.Take(w.now) > 0 {
		return
	}
	if w.broken.promiseAnyway {
		promise.Taken()
	}
	attempt := &failsafe.Recorded{Members: []string{p.identity()}}
	if slices.Contains(p.members, p.identity()) {
		attempt = &failsafe.Recorded{Members: p.members, For: limit}
	}
	p.holder.Begin(p.on, attempt)
	p.renewal = &renewal{began: w.now, at: w.now + w.delay() + p.lags, attempt: attempt, holds: p.on, epoch: epoch}
}

// renewed reads the record as the process sees it, and returns the record after a renewal.
func (p *process) renewed(r lease.Renewal) (lease.Grant, error) {
	w := p.w
	if p.stamp != w.stamp {
		p.stamp, p.first = w.stamp, w.now
	}
	told := max(w.stamped, p.born) // by the manager, to a candidate
	if w.broken.forgottenCounts {
		told = w.stamped
	}
	p.first = min(p.first, told)
	seen := w.grant
	seen.Lease.Until = zero.Add(p.first + leaseTime)
	if w.broken.othersTakeAtOnce {
		seen.Lease.Failsafe = nil
	}
	return seen.Renewed(r, zero.Add(w.now))
}

// put writes the record.
func (w *world) put(next lease.Grant, err error) {
	if err == nil {
		w.grant = next
		w.version++
		w.stamp++
		w.stamped = w.now
	}
}

var errAway = errors.New("the API server does not answer")

func (p *process) advanceRenewal() {
	w, n := p.w, p.renewal
	if n == nil {
		return
	}
	limit := patience
	if !n.holds {
		limit = leaseTime
	}
	if w.now >= n.began+limit || n.stage == 2 && w.chance(w.lossy) {
		p.endRenewal(errAway)
		return
	}
	if w.now < n.at {
		return
	}
	if !w.api[p.node] {
		if w.chance(0.5) { // refused at once
			p.endRenewal(errAway)
		}
		return
	}
	if w.lost && n.stage < 2 {
		p.endRenewal(errors.New("GRANT_LOST"))
		return
	}
	n.at = w.now + w.delay()
	switch n.stage {
	case 0:
		next, err := p.renewed(lease.Renewal{Writer: p.name, Identity: p.identity(), Epoch: n.epoch, TTL: leaseTime, Holds: n.holds, Failsafe: n.attempt})
		if err != nil {
			p.endRenewal(err)
			return
		}
		n.version, n.next = w.version, next
	case 1:
		if n.version != w.version { // a conflict: it reads again
			n.stage = 0
			return
		}
		w.put(n.next, nil)
	default:
		p.endRenewal(nil)
		return
	}
	n.stage++
}

func (p *process) endRenewal(err error) {
	w, n := p.w, p.renewal
	p.renewal = nil
	if !w.broken.forgetPromises && !w.broken.promiseAnyway {
		p.promise.Taken()
	}
	p.holder.End(n.began, n.attempt, err == nil)
	if err == nil && n.holds && !p.on { // its lease ended meanwhile, and may have been given up since
		return
	}
	if err == nil {
		if !p.on {
			w.writers++
			w.say("%s takes the lease of epoch %d", p.identity(), n.epoch)
		}
		p.success = []string{failsafe.Unknown}
		if n.attempt.For > 0 {
			p.success = n.attempt.Members
		}
		p.on, p.epoch, p.wrote, p.deadline = true, n.epoch, n.epoch, n.began+leaseTime-margin
		return
	}
	if p.on && p.round == nil && (errors.Is(err, errAway) || err.Error() == "GRANT_LOST") {
		p.ask()
	}
}

// ask begins a round of questions.
func (p *process) ask() {
	w := p.w
	members := p.holder.Members()
	p.round = &round{asked: w.now, epoch: p.epoch, members: members, answers: map[string]failsafe.Answer{}}
	for _, other := range w.processes {
		if other != p && slices.Contains(members, other.identity()) && (other == w.current[other.name] || !w.broken.nameOnly || w.chance(0.5)) {
			p.round.pending = append(p.round.pending, message{to: other, at: w.now + w.delay()})
		}
	}
}

func (p *process) advanceRound() {
	w, n := p.w, p.round
	if n == nil {
		return
	}
	var pending []message
	for _, m := range n.pending {
		pending = append(pending, p.deliver(m)...)
	}
	n.pending = pending
	if len(n.pending) > 0 && w.now < n.asked+leaseTime/6 { // until the questions time out
		return
	}
	p.round = nil
	if !p.on || p.epoch != n.epoch {
		return
	}
	r := failsafe.Round{
		Self: p.identity(), Members: p.holder.Members(), Answers: n.answers, Renewed: p.holder.Renewed(), For: limit,
		Promise: leaseTime - margin, Deadline: p.deadline, Asked: n.asked, Now: w.now,
	}
	switch b := w.broken; {
	case b.lastSuccess:
		r.Members = p.success
	case b.endless:
		r.For = time.Hour
	case b.countFromAnswers:
		r.Asked, r.Promise = w.now, leaseTime
	case b.oneMayBeMissing:
		for _, m := range r.Members {
			if _, ok := r.Answers[m]; !ok {
				r.Answers[m] = failsafe.Answer{Confirmed: true}
				break
			}
		}
	}
	if until, why := r.Decide(); why == "" {
		p.deadline = until
		w.gone++
		w.say("%s goes on until %s", p.identity(), until)
	}
}

// deliver moves a message, and returns what is under way after that.
func (p *process) deliver(m message) []message {
	w := p.w
	switch {
	case w.now < m.at:
		return []message{m}
	case !w.links[p.node][m.to.node] || !m.to.up():
		return []message{m}
	case m.answer == nil:
		q := failsafe.Question{Member: m.to.identity(), Writer: p.name, Epoch: p.round.epoch, For: leaseTime}
		a := m.to.promise.Give(q, failsafe.State{Identity: m.to.identity(), Writes: m.to.on, Epoch: m.to.wrote}, w.now)
		return []message{{to: m.to, at: w.now + w.delay() + m.to.late, answer: &a}}
	}
	p.round.answers[m.to.identity()] = *m.answer
	return nil
}
