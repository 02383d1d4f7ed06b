package declared

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// look is one look at a section of a cluster.
type look struct {
	r      *Reconciler
	c      Cluster
	d      declaration
	id     port.Ref
	now    time.Time
	former *finding // of the same spec, passwords and writer

	problems []problem
	waits    []string // what is under way
	events   []Event
	found    *finding
}

// statement is a planned statement of an object.
type statement struct {
	port.Statement
	subject   string
	condition string
	failed    *fault.Kind
}

// held reports whether an object has a problem and is left alone for now.
func (l *look) held(subject string) bool { return l.now.Before(l.former.held[subject].until) }

// problem adds why an object is not as it is declared.
func (l *look) problem(kind *fault.Kind, condition, subject, format string, args ...any) {
	l.problems = append(l.problems, problem{condition, subject, kind.Errorf("%s: "+format, append([]any{subject}, args...)...)})
}

func (l *look) run(ctx context.Context, s section) (*finding, error) {
	s.want(ctx, l)
	if err := s.find(ctx, l); err != nil {
		return nil, err
	}
	statements, missing := s.plan()
	l.problems = append(l.problems, missing...)
	done, err := l.execute(ctx, statements)
	if len(done) > 0 {
		l.events = append(l.events, Event{Reason: l.d.changed, Message: strings.Join(done, ", ")})
	}
	if err != nil {
		return nil, err
	}
	if len(done) > 0 && ctx.Err() == nil {
		if err := s.find(ctx, l); err != nil {
			return nil, err
		}
	}
	if err := s.check(ctx, l); err != nil {
		return nil, err
	}
	return l.finding(), nil
}

// execute executes statements and returns what they did. Those that wait for another server go by themselves, so that
// the others do not wait for them.
func (l *look) execute(ctx context.Context, all []statement) (done []string, err error) {
	admin := l.r.options.Engine.(port.DatabaseAdmin) // both sections have one
	for _, remote := range []bool{false, true} {
		var group []statement
		var plain []port.Statement
		for _, s := range all {
			if s.Remote == remote {
				group, plain = append(group, s), append(plain, s.Statement)
			}
		}
		if len(group) == 0 {
			continue
		}
		results, err := admin.Execute(ctx, l.id, plain)
		if err != nil {
			if transient(err) {
				return done, err
			}
			told := map[string]bool{}
			for _, s := range group { // the agent goes on with them
				if !told[s.condition] {
					l.problems = append(l.problems, problem{s.condition, s.subject, s.failed.Errorf("%s: %w", s.What, err)})
				}
				told[s.condition] = true
			}
			continue
		}
		for n, result := range results[:min(len(results), len(group))] {
			if s := group[n]; result.State == "" {
				done = append(done, s.What)
			} else {
				l.problems = append(l.problems, problem{s.condition, s.subject, s.failed.Errorf("%s: %s", s.What, result.Message)})
			}
		}
	}
	return done, nil
}

// finding keeps the problems that objects had and were left alone with, and tells all of them in the order of the spec.
func (l *look) finding() *finding {
	f, subjects := l.found, l.d.subjects
	f.held = map[string]retry{}
	for _, subject := range subjects {
		if l.held(subject) {
			f.held[subject] = l.former.held[subject]
			l.problems = append(l.problems, f.held[subject].problems...)
			continue
		}
		var mine []problem
		for _, p := range l.problems {
			if p.subject == subject {
				mine = append(mine, p)
			}
		}
		if len(mine) > 0 {
			f.held[subject] = l.former.held[subject].again(mine, l.now, l.r.options.RetryInterval)
		}
	}
	slices.SortStableFunc(l.problems, func(a, b problem) int {
		return cmp.Compare(slices.Index(subjects, a.subject), slices.Index(subjects, b.subject))
	})
	f.settled = len(f.held) == 0 && len(l.waits) == 0
	for _, t := range l.d.conditions {
		f.conditions = append(f.conditions, l.condition(t.condition, t.fine))
	}
	return f
}

// condition returns a condition from the problems that it tells. A new problem is an event.
func (l *look) condition(kind, fine string) metav1.Condition {
	var first *fault.Kind
	var texts []string
	for _, p := range l.problems {
		if p.condition == kind {
			first, texts = cmp.Or(first, fault.Of(p.err)), append(texts, fault.Message(p.err))
		}
	}
	switch {
	case first == nil && kind == SubscriptionsCondition && len(l.waits) > 0:
		return condition.New(kind, metav1.ConditionFalse, subscriptionCopies, "%s", strings.Join(l.waits, "; "))
	case first == nil:
		return condition.New(kind, metav1.ConditionTrue, "AsWanted", "%s", fine)
	}
	text := strings.Join(texts, "; ")
	now := condition.FromFault(kind, first, "%s", text[:min(len(text), 2000)])
	if was := meta.FindStatusCondition(l.c.Status.Conditions, kind); was == nil || was.Status != now.Status || was.Reason != now.Reason || was.Message != now.Message {
		l.events = append(l.events, Event{Warning: true, Reason: now.Reason, Message: now.Message})
	}
	return now
}

// until returns when the next look is due.
func (l *look) until(f *finding) time.Time {
	due := l.now.Add(l.r.options.Interval)
	if len(l.waits) > 0 {
		due = l.now.Add(min(l.r.options.Interval, l.r.options.WaitInterval))
	}
	for _, held := range f.held {
		if held.until.Before(due) {
			due = held.until
		}
	}
	return due
}
