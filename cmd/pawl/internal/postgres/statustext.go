package postgres

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/view"
)

// Text returns the screen. now zero: without ages.
func (s Status) Text(now time.Time, style view.Style) string {
	age := func(at time.Time) string {
		if at.IsZero() || now.IsZero() {
			return ""
		}
		return view.Age(now.Sub(at))
	}
	var b strings.Builder
	fact := func(name, format string, args ...any) {
		if text := strings.TrimSpace(fmt.Sprintf(format, args...)); text != "" {
			fmt.Fprintf(&b, "%-8s  %s\n", name, text)
		}
	}
	fact("Cluster", "%s", s.Cluster)
	fact("State", "%s  %s", style.Health(s.health(), s.State), age(s.Since))
	if w := s.Writer; w != nil {
		fact("Writer", "%s  %s  on %s  at %s", w.ID, w.Name, cmp.Or(w.Node, "?"), w.Address)
	} else {
		fact("Writer", "none takes writes")
	}
	if len(s.Instances) > 0 {
		fact("Engine", "PostgreSQL %s  class %s  durability %s%s", cmp.Or(s.Version, "of several versions"), cmp.Or(s.Class, "changing"), s.Durability, s.connections())
	}
	fact("Storage", "%s", s.storage())
	fact("Failover", "%s", s.failover())
	fact("Archive", "%s", s.archive(age))
	fact("Database", "%s", s.databases())
	fact("Users", "%s", s.users())
	if r := s.Run; r != nil {
		fact("Run", "%s  %s  %s", view.Short(r.ID), r.Flow, strings.Join(nonEmpty(r.Phase, "at "+r.Step, r.Progress), ", "))
		fact("", "%s", r.Message)
	} else if s.moving {
		fact("Doing", "%s", s.Progress)
	}
	for _, r := range s.Requests {
		fact("Request", "%s %s  %s", r.Kind, r.Args, r.State)
	}
	section := func(name string, t view.Table) {
		if t.Len() > 0 {
			b.WriteString("\n" + name + "\n" + view.Indent(t.Text(style), "  "))
		}
	}
	section("Instances", s.instanceTable(age))
	section("Poolers", s.poolerTable())
	section("Slots", s.slotTable())
	section("Subscriptions", s.subscriptionTable())
	if s.Unasked != "" {
		fmt.Fprintf(&b, "\nThe writer was not asked for lag, slots and archive: %s\n", s.Unasked)
	}
	if len(s.WhyNot) > 0 {
		b.WriteString("\nWhy not\n")
	}
	for _, f := range s.WhyNot {
		fmt.Fprintf(&b, "  %s\n    %s\n", strings.TrimSpace(f.What+"  "+f.Reason+"  "+age(f.Since)), f.Message)
		if f.Remedy != "" {
			b.WriteString(strings.Join(style.Wrap("    ", "remedy: "+f.Remedy), "\n") + "\n")
		}
	}
	return b.String()
}

func nonEmpty(texts ...string) (all []string) {
	for _, text := range texts {
		if text != "" && text != "at " {
			all = append(all, text)
		}
	}
	return all
}

func (s Status) connections() string {
	if s.MaxConnections == 0 {
		return ""
	}
	return fmt.Sprintf("  %d of %d connections", s.Connections, s.MaxConnections)
}

// databases lists the databases with their owners.
func (s Status) databases() string {
	var all []string
	for _, d := range s.Databases.Databases {
		all = append(all, d.Name+" of "+d.Owner)
	}
	return brief(all)
}

// users lists the users; those that are superusers are named as such.
func (s Status) users() string {
	var all []string
	for _, u := range s.Databases.Users {
		if u.Superuser {
			u.Name += " (superuser)"
		}
		all = append(all, u.Name)
	}
	return brief(all)
}

// brief joins the first names of a list.
func brief(names []string) string {
	const most = 8
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

func (s Status) storage() string {
	size := cmp.Or(s.Size, "of the default size")
	if s.Storage.Size != nil {
		if is := s.Storage.Size.String(); is != s.Size && s.Size != "" {
			size = is + ", " + s.Size + " wanted"
		} else {
			size = is
		}
	}
	return strings.Join(nonEmpty(size, cmp.Or(s.Storage.Claim, s.Storage.Volume)), "  ")
}

func (s Status) failover() string {
	m := s.Manager
	switch {
	case m.Health == "":
		return "there is no cluster manager"
	case m.HA == nil:
		return "the cluster manager is " + m.Health
	case !*m.HA && !m.Until.IsZero():
		return "off until " + m.Until.UTC().Format("15:04:05 MST")
	case !*m.HA:
		return "off"
	}
	for _, f := range s.WhyNot {
		if f.What == "HighAvailability" {
			return "on, and none is possible: " + f.Reason
		}
	}
	return "on"
}

func (s Status) archive(age func(time.Time) string) string {
	a := s.Archive
	switch {
	case a == nil:
		return ""
	case a.Mode == "off":
		return "none: no log is archived"
	case a.LastAt == nil:
		return "on, nothing is archived yet"
	}
	return fmt.Sprintf("on, last %s  %s", a.Last, age(*a.LastAt))
}

func (s Status) instanceTable(age func(time.Time) string) view.Table {
	return view.TableOf(s.Instances, []view.Column[Instance]{
		{Head: "ID", Cell: func(i Instance) string { return i.ID }},
		{Head: "ROLE", Cell: func(i Instance) string { return i.Role }},
		{Head: "HEALTH", Cell: func(i Instance) string { return i.Health }, Health: func(i Instance) view.Health { return view.HealthOf(i.Health) }},
		{Head: "SINCE", Cell: func(i Instance) string { return cmp.Or(age(i.Since), "–") }},
		{Head: "NODE", Cell: func(i Instance) string { return cmp.Or(i.Node, "–") }},
		{Head: "ADDRESS", Cell: func(i Instance) string { return cmp.Or(i.Address, "–") }},
		{Head: "VERSION", Cell: func(i Instance) string { return cmp.Or(i.Version, "–") }},
		{Head: "STREAMS", Cell: func(i Instance) string { return cmp.Or(i.replication().streams, "–") }},
		{Head: "LAG", Cell: func(i Instance) string { return i.replication().lag }},
		{Head: "BEHIND", Cell: func(i Instance) string { return i.replication().behind }},
		{Head: "NAME", Cell: func(i Instance) string { return strings.TrimSpace(i.Name + "  " + i.Message) }},
	})
}

// replicationText is how an instance follows the writer.
type replicationText struct{ streams, lag, behind string }

func (i Instance) replication() replicationText {
	t := replicationText{i.Streaming, "–", "–"}
	if i.Role == string(port.Writer) {
		return replicationText{"–", "–", "–"}
	}
	if i.Sync == "quorum" || i.Sync == "sync" {
		t.streams += ", sync"
	}
	if i.LagBytes != nil {
		t.lag = bytesText(*i.LagBytes)
	}
	if i.LagSeconds != nil {
		t.behind = strconv.FormatFloat(*i.LagSeconds, 'f', 1, 64) + "s"
	} else if i.LagBytes != nil && *i.LagBytes == 0 {
		t.behind = "0.0s"
	}
	return t
}

func (s Status) subscriptionTable() view.Table {
	return view.TableOf(s.Subscriptions, []view.Column[v1alpha1.SubscriptionStatus]{
		{Head: "SUBSCRIPTION", Cell: func(s v1alpha1.SubscriptionStatus) string { return s.Name }},
		{Head: "DATABASE", Cell: func(s v1alpha1.SubscriptionStatus) string { return s.Database }},
		{Head: "STATE", Cell: func(s v1alpha1.SubscriptionStatus) string { return s.State }, Health: func(s v1alpha1.SubscriptionStatus) view.Health { return view.HealthOf(s.State) }},
		{Head: "LAG", Cell: func(s v1alpha1.SubscriptionStatus) string {
			if s.LagBytes == nil {
				return "–"
			}
			return bytesText(*s.LagBytes)
		}},
		{Head: "ERRORS", Cell: func(s v1alpha1.SubscriptionStatus) string { return strconv.FormatInt(s.Errors, 10) }},
	})
}

func (s Status) poolerTable() view.Table {
	return view.TableOf(s.Poolers, []view.Column[v1alpha1.PoolerStatus]{
		{Head: "POOLER", Cell: func(p v1alpha1.PoolerStatus) string { return p.Name }},
		{Head: "HEALTH", Cell: func(p v1alpha1.PoolerStatus) string { return p.Health }, Health: func(p v1alpha1.PoolerStatus) view.Health { return view.HealthOf(p.Health) }},
		{Head: "ADDRESS", Cell: func(p v1alpha1.PoolerStatus) string {
			if p.Address == "" {
				return "–"
			}
			return net.JoinHostPort(p.Address, strconv.Itoa(int(p.Port)))
		}},
		{Head: "WRITER", Cell: func(p v1alpha1.PoolerStatus) string {
			return strings.TrimSpace(cmp.Or(p.Writer, "–") + "  " + p.Message)
		}},
	})
}

func (s Status) slotTable() view.Table {
	return view.TableOf(s.Slots, []view.Column[Slot]{
		{Head: "SLOT", Cell: func(s Slot) string { return s.Name }},
		{Head: "FOR", Cell: func(s Slot) string { return cmp.Or(s.Instance, "–") }},
		{Head: "ACTIVE", Cell: func(s Slot) string { return map[bool]string{true: "yes", false: "no"}[s.Active] }},
		{Head: "LOG", Cell: func(s Slot) string { return cmp.Or(s.WAL, "–") }},
		{Head: "KEPT", Cell: func(s Slot) string { return bytesText(s.RetainedBytes) }},
	})
}

func bytesText(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	case n < 1<<30:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB"
}

// health judges the cluster as the exit code of status does.
func (s Status) health() view.Health {
	return map[int]view.Health{view.ExitDone: view.HealthOf(s.State), view.ExitActive: view.Progressing, view.ExitRemedy: view.Degraded}[s.Exit()]
}
