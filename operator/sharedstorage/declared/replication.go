package declared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

const replicationName = "publications and subscriptions"

// wantedReplication is what the server shall have of logical replication, and shall not have.
type wantedReplication struct {
	Publications  []wantedPublication
	Subscriptions []wantedSubscription
}

// replication is the publications and subscriptions of a cluster.
type replication struct {
	admin  port.ReplicationAdmin
	wanted wantedReplication
	found  port.Replication
}

func (r *replication) declaration(s *v1alpha1.SharedStorageClusterSpec) declaration {
	all := declaration{name: replicationName, changed: "LogicalReplicationChanged"}
	if len(s.Publications) > 0 {
		all.conditions = append(all.conditions, told{PublicationsCondition, "publications are as the spec wants them"})
	}
	if len(s.Subscriptions) > 0 {
		all.conditions = append(all.conditions, told{SubscriptionsCondition, "subscriptions are as the spec wants them, and receive"})
	}
	for _, p := range s.Publications {
		all.subjects = append(all.subjects, publicationSubject(p.Database, p.Name))
	}
	for _, one := range s.Subscriptions {
		all.subjects = append(all.subjects, subscriptionSubject(one.Name))
		if one.From != nil && one.From.Password != nil && one.Ensure != absent {
			all.passwords = append(all.passwords, password{one.Name, one.From.Password})
		}
	}
	return all
}

// want implements section. A subscription whose password cannot be read stays as it is.
func (r *replication) want(ctx context.Context, l *look) {
	for _, s := range l.c.Spec.Publications {
		if !l.held(publicationSubject(s.Database, s.Name)) {
			r.wanted.Publications = append(r.wanted.Publications, publicationOf(&s))
		}
	}
	for _, s := range l.c.Spec.Subscriptions {
		if l.held(subscriptionSubject(s.Name)) {
			continue
		}
		one, err := subscriptionOf(ctx, l, &s)
		if err != nil {
			l.problem(port.PasswordMissing, SubscriptionsCondition, subscriptionSubject(s.Name), "%w", err)
			continue
		}
		r.wanted.Subscriptions = append(r.wanted.Subscriptions, one)
	}
}

// find implements section. The servers of held subscriptions are not asked.
func (r *replication) find(ctx context.Context, l *look) (err error) {
	var databases, names []string
	for _, s := range l.c.Spec.Publications {
		databases = append(databases, s.Database)
	}
	for _, s := range l.c.Spec.Subscriptions {
		databases = append(databases, s.Database)
		if !l.held(subscriptionSubject(s.Name)) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(databases)
	r.found, err = r.admin.Replication(ctx, l.id, slices.Compact(databases), names)
	return err
}

func (r *replication) plan() ([]statement, []problem) { return planReplication(r.wanted, r.found), nil }

// check implements section: it tells what keeps what is declared from having its rows.
func (r *replication) check(_ context.Context, l *look) error {
	for _, s := range l.c.Spec.Publications {
		if subject := publicationSubject(s.Database, s.Name); s.Ensure != absent && !l.held(subject) && slices.Contains(r.found.Missing, s.Database) {
			l.problems = append(l.problems, problem{PublicationsCondition, subject, port.PublicationFailed.Errorf("publication %s: there is no database %s", s.Name, s.Database)})
		}
	}
	for _, s := range l.c.Spec.Subscriptions {
		was := v1alpha1.SubscriptionStatus{}
		if n := slices.IndexFunc(l.c.Status.Subscriptions, func(was v1alpha1.SubscriptionStatus) bool { return was.Name == s.Name }); n >= 0 {
			was = l.c.Status.Subscriptions[n]
		}
		if l.held(subscriptionSubject(s.Name)) {
			if was.Name != "" {
				l.found.subscriptions = append(l.found.subscriptions, was)
			}
			continue
		}
		is, there := r.subscription(&s)
		r.checkSubscription(l, &s, is, there, was)
		if !there {
			continue
		}
		st := v1alpha1.SubscriptionStatus{Name: s.Name, Database: s.Database, State: stateOf(is), Errors: is.Errors}
		if at := is.Publisher; at != nil && at.Unreachable == "" && at.Slot {
			st.LagBytes = new(port.RoundLag(max(at.Lag, 0)))
		}
		l.found.subscriptions = append(l.found.subscriptions, st)
	}
	l.found.replicates = true
	return nil
}

func (r *replication) subscription(s *v1alpha1.SubscriptionSpec) (port.Subscription, bool) {
	n := slices.IndexFunc(r.found.Subscriptions, func(is port.Subscription) bool { return is.Name == s.Name && is.Database == s.Database })
	if n < 0 {
		return port.Subscription{}, false
	}
	return r.found.Subscriptions[n], true
}

// checkSubscription tells what is wrong with a subscription, or under way.
func (r *replication) checkSubscription(l *look, s *v1alpha1.SubscriptionSpec, is port.Subscription, there bool, was v1alpha1.SubscriptionStatus) {
	problem := func(kind *fault.Kind, format string, args ...any) {
		l.problem(kind, SubscriptionsCondition, subscriptionSubject(s.Name), format, args...)
	}
	switch state := stateOf(is); {
	case s.Ensure == absent:
	case slices.Contains(r.found.Missing, s.Database):
		problem(port.SubscriptionFailed, "there is no database %s", s.Database)
	case !there: // its statement has failed
	case is.Publisher != nil && is.Publisher.Unreachable != "":
		problem(port.PublisherUnreachable, "%s", is.Publisher.Unreachable)
	case state == subscriptionLost:
		problem(port.SubscriptionSlotLost, "%s has no slot %s any more, or not the log for it", s.From.Host, s.Name)
	case is.Publisher != nil && len(is.Publisher.Missing) > 0:
		problem(port.SubscriptionFailed, "%s has no publication %s", s.From.Host, strings.Join(is.Publisher.Missing, ", "))
	case is.Errors > was.Errors && was.State != "":
		problem(port.SubscriptionFailed, "changes could not be applied, or rows copied; the log of the writer says why")
	case state == subscriptionDown && was.State == subscriptionDown:
		problem(port.SubscriptionFailed, "no process receives: the log of the writer says why, or max_logical_replication_workers are in use")
	case state == subscriptionDown:
		l.waits = append(l.waits, "subscription "+s.Name+": its process starts")
	case state == subscriptionCopies:
		l.waits = append(l.waits, "subscription "+s.Name+": "+strconv.Itoa(is.Copying)+" tables are copied")
	}
}

// planReplication returns the statements that make what was found as it is wanted, in their order: publications
// first. After all of them have succeeded, there are none. Nothing is planned in a database that is not
// there.
func planReplication(want wantedReplication, found port.Replication) []statement {
	p := &replicationPlan{found: found}
	for _, pub := range want.Publications {
		if !slices.Contains(found.Missing, pub.Database) {
			p.publication(pub)
		}
	}
	for _, sub := range want.Subscriptions {
		if !slices.Contains(found.Missing, sub.Database) {
			p.subscription(sub)
		}
	}
	return p.statements
}

type replicationPlan struct {
	found      port.Replication
	statements []statement
}

func (p *replicationPlan) add(failed *fault.Kind, condition, subject, database, what, sql string, args ...any) {
	p.statements = append(p.statements, statement{port.Statement{Database: database, What: what + " of " + database, SQL: fmt.Sprintf(sql, args...), Remote: condition == SubscriptionsCondition},
		subject, condition, failed})
}

// CheckReplication repeats the rules of the CRD for publications and subscriptions.
func CheckReplication(s *v1alpha1.SharedStorageClusterSpec) error {
	if level, set := s.Parameters["wal_level"]; set && level != "logical" && Publishes(s) {
		return errors.New("parameters: wal_level is logical while there are publications")
	}
	seen := map[string]bool{}
	for _, p := range s.Publications {
		if err := wrongPublication(&p); err != nil {
			return fmt.Errorf("publications: %s: %w", p.Name, err)
		}
		if seen[p.Database+"/"+p.Name] {
			return fmt.Errorf("publications: %s of %s is declared twice", p.Name, p.Database)
		}
		seen[p.Database+"/"+p.Name] = true
	}
	clear(seen)
	for _, one := range s.Subscriptions {
		if err := wrongSubscription(&one); err != nil {
			return fmt.Errorf("subscriptions: %s: %w", one.Name, err)
		}
		if seen[one.Name] {
			return fmt.Errorf("subscriptions: %s is declared twice", one.Name)
		}
		seen[one.Name] = true
	}
	return nil
}
