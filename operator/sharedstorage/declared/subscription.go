package declared

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The states of a subscription in a status.
const (
	subscriptionStreams  = "Streaming"
	subscriptionCopies   = "Copying"
	subscriptionDisabled = "Disabled"
	subscriptionDown     = "Down"
	subscriptionLost     = "SlotLost"
)

// wantedSubscription is a subscription that is wanted, or with Absent is not.
type wantedSubscription struct {
	Name, Database string
	Absent         bool
	Publications   []string
	From           source
	CopyData       bool
	Enabled        bool
}

// source is the server that publishes.
type source struct {
	Host           string
	Port           int32
	Database, User string
	Password       string // empty: left out
	SSLMode        string
}

// Connection returns the connection string of libpq, with the password. The time to connect is short,
// because a statement waits for it.
func (s source) Connection() string {
	text := ""
	for _, part := range [][2]string{{"host", s.Host}, {"port", strconv.Itoa(int(s.Port))}, {"dbname", s.Database}, {"user", s.User}, {"password", s.Password}, {"sslmode", s.SSLMode}, {"connect_timeout", "4"}} {
		if part[1] != "" {
			text += " " + part[0] + "='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(part[1]) + "'"
		}
	}
	return strings.TrimSpace(text)
}

// sha is the SHA-256 of a text, which is what port.Subscription has of a connection string.
func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func subscriptionSubject(name string) string { return "subscription " + name }

// subscriptionOf returns what a spec wants, with the password of its source.
func subscriptionOf(ctx context.Context, l *look, s *v1alpha1.SubscriptionSpec) (one wantedSubscription, err error) {
	one = wantedSubscription{Name: s.Name, Database: s.Database, Absent: s.Ensure == absent, Publications: s.Publications,
		CopyData: s.CopyData == nil || *s.CopyData, Enabled: s.Enabled == nil || *s.Enabled}
	f := s.From
	if f == nil || one.Absent {
		return one, nil
	}
	one.From = source{Host: f.Host, Port: cmp.Or(f.Port, 5432), Database: cmp.Or(f.Database, s.Database), User: f.User, SSLMode: cmp.Or(f.SSLMode, "prefer")}
	if f.Password == nil {
		return one, nil
	}
	if one.From.Password, err = l.secret(ctx, *f.Password); err == nil && (one.From.Password == "" || strings.ContainsAny(one.From.Password, "\x00\r\n")) {
		err = errors.New("it is empty, or has more than one line")
	}
	return one, err
}

func (p *replicationPlan) subscription(w wantedSubscription) {
	n := slices.IndexFunc(p.found.Subscriptions, func(is port.Subscription) bool { return is.Name == w.Name && is.Database == w.Database })
	name, connection := quote(w.Name), w.From.Connection()
	add := func(what, sql string, args ...any) {
		p.add(port.SubscriptionFailed, SubscriptionsCondition, subscriptionSubject(w.Name), w.Database, what, sql, args...)
	}
	copies := "copy_data = " + strconv.FormatBool(w.CopyData)
	if n < 0 {
		if !w.Absent {
			add("create subscription "+w.Name, "CREATE SUBSCRIPTION %s CONNECTION %s PUBLICATION %s WITH (%s, enabled = %t, synchronous_commit = on)",
				name, literal(connection), list(w.Publications), copies, w.Enabled)
		}
		return
	}
	is := p.found.Subscriptions[n]
	alter := func(what, sql string, args ...any) {
		add(what+" subscription "+w.Name, "ALTER SUBSCRIPTION "+name+" "+sql, args...)
	}
	switch {
	case w.Absent && is.SlotLost(): // the slot could not be dropped with it
		add("drop subscription "+w.Name, "ALTER SUBSCRIPTION %s DISABLE; ALTER SUBSCRIPTION %s SET (slot_name = NONE); DROP SUBSCRIPTION %s", name, name, name)
		return
	case w.Absent:
		add("drop subscription "+w.Name, "DROP SUBSCRIPTION %s", name)
		return
	}
	if is.Connection != sha(connection) {
		alter("connection of", "CONNECTION %s", literal(connection))
	}
	if !is.Confirms { // otherwise the slot moves on before a reader has the rows, and a failover loses them
		alter("commits of", "SET (synchronous_commit = on)")
	}
	if w.Enabled && !is.Enabled {
		alter("enable", "ENABLE")
	} else if !w.Enabled && is.Enabled {
		alter("disable", "DISABLE")
	}
	at := is.Publisher
	switch {
	case !same(w.Publications, is.Publications) && w.Enabled:
		alter("publications of", "SET PUBLICATION %s WITH (%s)", list(w.Publications), copies)
	case !same(w.Publications, is.Publications): // PostgreSQL looks at no tables of a disabled one
		alter("publications of", "SET PUBLICATION %s WITH (refresh = false)", list(w.Publications))
	case w.Enabled && at != nil && at.New > 0 && len(at.Missing) == 0 && !is.SlotLost():
		alter("new tables of", "REFRESH PUBLICATION WITH (%s)", copies)
	}
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

var hostName = regexp.MustCompile(`^[A-Za-z0-9:][A-Za-z0-9.:_-]*$`)

func wrongSubscription(s *v1alpha1.SubscriptionSpec) error {
	switch {
	case !objectName.MatchString(s.Name):
		return errors.New("name: a name has up to 63 lower case letters, digits and _, a letter first and no _ last")
	case strings.HasPrefix(s.Name, "pg_"), strings.HasPrefix(s.Name, "pawl_"):
		return errors.New("name: names that begin with pg_ or pawl_ are those of other slots")
	case s.Database == "":
		return errors.New("database: name one")
	case !ensures(s.Ensure):
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
