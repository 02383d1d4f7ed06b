package sharedstorage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/sharedstorage/logical"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The conditions of logical replication are there while the spec has publications, or subscriptions.
const (
	PublicationsCondition  = "PublicationsReady"  // publications are as spec.publications wants them
	SubscriptionsCondition = "SubscriptionsReady" // subscriptions are so, and have all rows but those of their lag
)

// The states of a subscription in a status.
const (
	subscriptionStreams  = "Streaming"
	subscriptionCopies   = "Copying"
	subscriptionDisabled = "Disabled"
	subscriptionDown     = "Down"
	subscriptionLost     = "SlotLost"
)

// logicalFact is what one pass did about publications and subscriptions.
type logicalFact struct {
	found         port.Logical
	publications  []error // problems
	subscriptions []error
	waits         []string // what is under way
}

// publications makes the publications and subscriptions of the writer as the spec wants them, when
// databases would.
func (t *repairer) publications() {
	admin, ok := t.o.options.Ports.Engine.(port.LogicalAdmin)
	writer, cluster := t.f.writer(), t.c.Ref.Namespace+"/"+t.c.Ref.Name
	if !ok || t.c.Kind != Kind || writer == nil || len(t.c.Spec.Publications)+len(t.c.Spec.Subscriptions) == 0 {
		return
	}
	key := t.logicalKey(writer.Name)
	if _, ready := t.o.logicalFound.get(cluster, key, t.f.At); ready {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.o.options.CallTimeout)
	defer cancel()
	l := &logicalFact{}
	if err := guarded(func() error { return l.apply(ctx, t, admin, t.c.Ref.Of(writer.Name)) }); err != nil {
		if t.ctx.Err() == nil {
			t.o.options.Logger.Warn("the publications and subscriptions of a cluster could not be seen to", "cluster", t.c.Ref.String(), "error", err)
		}
		return // the writer did not answer: what was known of it stays
	}
	t.f.logical = l
	if l.settled() {
		t.o.logicalFound.put(cluster, key, t.f.At.Add(t.o.options.IdleInterval), struct{}{})
	}
}

// logicalKey changes with all that makes a look due.
func (t *repairer) logicalKey(writer string) string {
	key := strings.Join([]string{t.c.Ref.UID, strconv.FormatInt(t.c.Generation, 10), writer}, "/")
	for _, s := range t.c.Spec.Subscriptions {
		if s.From != nil && s.From.Password != nil && s.Ensure != absent && t.o.options.Credentials != nil {
			key += "/" + t.o.options.Credentials.Revision(t.ctx, t.c.Ref, s.Name, s.From.Password)
		}
	}
	return key
}

// settled reports whether the next look can wait for a change, or a minute.
func (l *logicalFact) settled() bool {
	return len(l.publications)+len(l.subscriptions)+len(l.waits) == 0
}

func (l *logicalFact) apply(ctx context.Context, t *repairer, admin port.LogicalAdmin, id port.Ref) (err error) {
	want := l.wanted(ctx, t)
	var databases, names []string
	for _, p := range t.c.Spec.Publications {
		databases = append(databases, p.Database)
	}
	for _, s := range t.c.Spec.Subscriptions {
		databases, names = append(databases, s.Database), append(names, s.Name)
	}
	slices.Sort(databases)
	databases = slices.Compact(databases)
	look := func() (err error) {
		l.found, err = admin.Logical(ctx, id, databases, names)
		return err
	}
	if err := look(); err != nil {
		return err
	}
	mine := len(logical.Plan(logical.Wanted{Publications: want.Publications}, l.found))
	if statements := logical.Plan(want, l.found); len(statements) > 0 {
		results, err := admin.Execute(ctx, id, statements)
		if err != nil { // a server that publishes can let a statement wait
			if mine > 0 {
				l.publications = append(l.publications, port.PublicationFailed.Errorf("%s: %w", statements[0].What, err))
			}
			if mine < len(statements) {
				l.subscriptions = append(l.subscriptions, port.SubscriptionFailed.Errorf("%s: %w", statements[mine].What, err))
			}
			return nil
		}
		var done []string
		for n, r := range results {
			switch {
			case r.State == "":
				done = append(done, statements[n].What)
			case n < mine:
				l.publications = append(l.publications, port.PublicationFailed.Errorf("%s: %s", statements[n].What, r.Message))
			default:
				l.subscriptions = append(l.subscriptions, port.SubscriptionFailed.Errorf("%s: %s", statements[n].What, r.Message))
			}
		}
		if len(done) > 0 {
			t.o.emit(t.c, Event{Reason: "LogicalReplicationChanged", Message: strings.Join(done, ", ")})
			if err := look(); err != nil {
				return err
			}
		}
	}
	l.judge(t.c)
	return nil
}

// wanted reads the spec and the passwords. A subscription whose password cannot be read stays as it is.
func (l *logicalFact) wanted(ctx context.Context, t *repairer) (want logical.Wanted) {
	for _, s := range t.c.Spec.Publications {
		want.Publications = append(want.Publications, logical.Publication{Name: s.Name, Database: s.Database, Absent: s.Ensure == absent,
			Tables: s.Tables, Schemas: s.Schemas, AllTables: s.AllTables, Operations: s.Operations})
	}
	for _, s := range t.c.Spec.Subscriptions {
		one := logical.Subscription{Name: s.Name, Database: s.Database, Absent: s.Ensure == absent, Publications: s.Publications,
			CopyData: s.CopyData == nil || *s.CopyData, Enabled: s.Enabled == nil || *s.Enabled}
		if f := s.From; f != nil && !one.Absent {
			one.From = logical.Source{Host: f.Host, Port: cmp.Or(f.Port, 5432), Database: cmp.Or(f.Database, s.Database), User: f.User, SSLMode: cmp.Or(f.SSLMode, "prefer")}
			var err error
			if one.From.Password, err = t.passwordOf(ctx, f.Password); err != nil {
				l.subscriptions = append(l.subscriptions, port.PasswordMissing.Errorf("subscription %s: %w", s.Name, err))
				continue
			}
		}
		want.Subscriptions = append(want.Subscriptions, one)
	}
	return want
}

func (t *repairer) passwordOf(ctx context.Context, from *v1alpha1.SecretSource) (string, error) {
	switch {
	case from == nil:
		return "", nil
	case t.o.options.Secrets == nil:
		return "", errors.New("this operator reads no secrets")
	}
	text, err := t.o.options.Secrets(ctx, t.c.Ref.Namespace, *from)
	if text = strings.TrimRight(text, "\r\n"); err == nil && (text == "" || strings.ContainsAny(text, "\x00\r\n")) {
		err = errors.New("it is empty, or has more than one line")
	}
	return text, err
}

// judge says what keeps what is declared from having its rows.
func (l *logicalFact) judge(c *Cluster) {
	for _, p := range c.Spec.Publications {
		if p.Ensure != absent && slices.Contains(l.found.Missing, p.Database) {
			l.publications = append(l.publications, port.PublicationFailed.Errorf("publication %s: there is no database %s", p.Name, p.Database))
		}
	}
	for _, s := range c.Spec.Subscriptions {
		is, there := l.subscription(s)
		problem := func(kind *fault.Kind, format string, args ...any) {
			l.subscriptions = append(l.subscriptions, kind.Errorf("subscription %s: "+format, append([]any{s.Name}, args...)...))
		}
		was := v1alpha1.SubscriptionStatus{}
		if n := slices.IndexFunc(c.Status.Subscriptions, func(was v1alpha1.SubscriptionStatus) bool { return was.Name == s.Name }); n >= 0 {
			was = c.Status.Subscriptions[n]
		}
		switch state := stateOf(is); {
		case s.Ensure == absent:
		case slices.Contains(l.found.Missing, s.Database):
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
}

func (l *logicalFact) subscription(s v1alpha1.SubscriptionSpec) (port.Subscription, bool) {
	n := slices.IndexFunc(l.found.Subscriptions, func(is port.Subscription) bool { return is.Name == s.Name && is.Database == s.Database })
	if n < 0 {
		return port.Subscription{}, false
	}
	return l.found.Subscriptions[n], true
}

func stateOf(is port.Subscription) string {
	switch {
	case is.SlotLost():
		return subscriptionLost
	case !is.Enabled:
		return subscriptionDisabled
	case !is.Running:
		return subscriptionDown
	case is.Copying > 0:
		return subscriptionCopies
	}
	return subscriptionStreams
}

func (c *Cluster) computeSubscriptions() {
	if len(c.Spec.Subscriptions) == 0 {
		c.Status.Subscriptions = nil
	}
	l := c.Facts.logical
	if l == nil {
		return
	}
	c.Status.Subscriptions = nil
	for _, s := range c.Spec.Subscriptions {
		is, there := l.subscription(s)
		if !there {
			continue
		}
		st := v1alpha1.SubscriptionStatus{Name: s.Name, Database: s.Database, State: stateOf(is), Errors: is.Errors}
		if at := is.Publisher; at != nil && at.Unreachable == "" && at.Slot {
			st.LagBytes = new(max(at.Lag, 0) / lagStep * lagStep)
		}
		c.Status.Subscriptions = append(c.Status.Subscriptions, st)
	}
}

// publicationsReady says whether publications are as wanted; nil: there is nothing new about it.
func (o *Operator) publicationsReady(c *Cluster) *metav1.Condition {
	l := c.Facts.logical
	if len(c.Spec.Publications) == 0 {
		return nil
	}
	var problems []error
	if l != nil {
		problems = l.publications
	}
	return o.followed(c, PublicationsCondition, l != nil, problems, "publications are as the spec wants them")
}

// subscriptionsReady says whether subscriptions are as wanted and receive; nil: there is nothing new
// about it.
func (o *Operator) subscriptionsReady(c *Cluster) *metav1.Condition {
	l := c.Facts.logical
	if len(c.Spec.Subscriptions) == 0 {
		return nil
	}
	if l != nil && len(l.subscriptions) == 0 && len(l.waits) > 0 {
		return new(condition.New(SubscriptionsCondition, metav1.ConditionFalse, subscriptionCopies, "%s", strings.Join(l.waits, "; ")))
	}
	var problems []error
	if l != nil {
		problems = l.subscriptions
	}
	return o.followed(c, SubscriptionsCondition, l != nil, problems, "subscriptions are as the spec wants them, and receive")
}

// forgetLogical removes the conditions of what the spec no longer declares.
func (c *Cluster) forgetLogical() {
	if len(c.Spec.Publications) == 0 {
		meta.RemoveStatusCondition(&c.Status.Conditions, PublicationsCondition)
	}
	if len(c.Spec.Subscriptions) == 0 {
		meta.RemoveStatusCondition(&c.Status.Conditions, SubscriptionsCondition)
	}
}

// publishes reports whether the spec wants a publication.
func publishes(s *v1alpha1.SharedStorageClusterSpec) bool {
	return slices.ContainsFunc(s.Publications, func(p v1alpha1.PublicationSpec) bool { return p.Ensure != absent })
}

var (
	tableName = regexp.MustCompile(`^[^."]+(\.[^."]+)?$`)
	hostName  = regexp.MustCompile(`^[A-Za-z0-9:][A-Za-z0-9.:_-]*$`)
)

// CheckPublications repeats the rules of the CRD for publications and subscriptions: SPEC_INVALID.
func CheckPublications(s *v1alpha1.SharedStorageClusterSpec) error {
	if level, set := s.Parameters["wal_level"]; set && level != "logical" && publishes(s) {
		return SpecInvalid.Errorf("parameters: wal_level is logical while there are publications")
	}
	seen := map[string]bool{}
	for _, p := range s.Publications {
		if err := wrongPublication(&p); err != nil {
			return SpecInvalid.Errorf("publications: %s: %w", p.Name, err)
		}
		if seen[p.Database+"/"+p.Name] {
			return SpecInvalid.Errorf("publications: %s of %s is declared twice", p.Name, p.Database)
		}
		seen[p.Database+"/"+p.Name] = true
	}
	clear(seen)
	for _, one := range s.Subscriptions {
		if err := wrongSubscription(&one); err != nil {
			return SpecInvalid.Errorf("subscriptions: %s: %w", one.Name, err)
		}
		if seen[one.Name] {
			return SpecInvalid.Errorf("subscriptions: %s is declared twice", one.Name)
		}
		seen[one.Name] = true
	}
	return nil
}

func wrongPublication(p *v1alpha1.PublicationSpec) error {
	objects := 0
	for _, named := range []bool{len(p.Tables) > 0, len(p.Schemas) > 0, p.AllTables} {
		if named {
			objects++
		}
	}
	switch {
	case !roleName.MatchString(p.Name):
		return errors.New("name: a name has up to 63 lower case letters, digits and _, a letter first and no _ last")
	case p.Database == "":
		return errors.New("database: name one")
	case p.Ensure != "" && p.Ensure != "present" && p.Ensure != absent:
		return fmt.Errorf("ensure: %q is none of present, absent", p.Ensure)
	case objects != 1 && p.Ensure != absent:
		return errors.New("name one of tables, schemas and allTables")
	}
	for _, table := range p.Tables {
		if !tableName.MatchString(table) {
			return fmt.Errorf("tables: %q is no table, such as orders or public.orders", table)
		}
	}
	for _, operation := range p.Operations {
		if !slices.Contains(logical.Operations, operation) {
			return fmt.Errorf("operations: %q is none of %s", operation, strings.Join(logical.Operations, ", "))
		}
	}
	return nil
}

func wrongSubscription(s *v1alpha1.SubscriptionSpec) error {
	switch {
	case !roleName.MatchString(s.Name):
		return errors.New("name: a name has up to 63 lower case letters, digits and _, a letter first and no _ last")
	case strings.HasPrefix(s.Name, "pg_"), strings.HasPrefix(s.Name, "pawl_"):
		return errors.New("name: names that begin with pg_ or pawl_ are those of other slots")
	case s.Database == "":
		return errors.New("database: name one")
	case s.Ensure != "" && s.Ensure != "present" && s.Ensure != absent:
		return fmt.Errorf("ensure: %q is none of present, absent", s.Ensure)
	case s.Ensure == absent:
		return nil
	case s.From == nil || len(s.Publications) == 0:
		return errors.New("name publications, and the server they come from")
	case !hostName.MatchString(s.From.Host):
		return fmt.Errorf("from.host: %q is neither a name nor an address", s.From.Host)
	case s.From.Port < 0 || s.From.Port > 65535:
		return fmt.Errorf("from.port: %d is not within 1 and 65535", s.From.Port)
	case s.From.User == "":
		return errors.New("from.user: name one")
	case !slices.Contains([]string{"", "disable", "prefer", "require"}, s.From.SSLMode):
		return fmt.Errorf("from.sslMode: %q is none of disable, prefer, require", s.From.SSLMode)
	}
	return nil
}
